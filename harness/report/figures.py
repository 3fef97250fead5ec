"""What all figures share: palette, canvas, a logarithmic axis for ratios, and the way from matplotlib to a data URI.

A figure is drawn at one unit a CSS pixel. In the page its colours are CSS variables, so that it follows the reader's
light or dark scheme; text stays text. The same input gives the same bytes: fixed hash salt, no date, no user settings.
"""

from __future__ import annotations

import io
import math
import re
import urllib.parse
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from harness.report.view import Picture

INK, MUTED, GRID, BAND, PAPER = "#1b2430", "#5a6675", "#dde2e8", "#eceff3", "#fefefe"
BLUE, ORANGE, RED = "#1d5fb8", "#b8500c", "#b3261e"

PALETTE: dict[str, tuple[str, str, str]] = {
    INK: ("ink", INK, "#e4e8ed"),
    MUTED: ("muted", MUTED, "#9aa6b4"),
    GRID: ("grid", GRID, "#323b46"),
    BAND: ("band", BAND, "#262e38"),
    PAPER: ("paper", PAPER, "#161b21"),
    BLUE: ("blue", BLUE, "#6ea8f7"),
    ORANGE: ("orange", ORANGE, "#f0964d"),
    RED: ("red", RED, "#f2857b"),
}
"""By the colour that matplotlib is given: the CSS variable's name, its value in a light scheme, and in a dark one."""

COLOURS: dict[str, str] = {
    "better": BLUE,
    "worse": ORANGE,
    "same": MUTED,
    "open": MUTED,
    "error": RED,
    "absent": MUTED,
}
"""By a verdict's tone (see `format.look`)."""

MARKERS: dict[str, str] = {"better": "o", "worse": "s", "same": "D", "open": "o", "error": "X", "absent": "o"}

SETTINGS: dict[Any, Any] = {
    "figure.dpi": 72,
    "savefig.dpi": 72,
    "svg.fonttype": "none",
    "svg.hashsalt": "harness report",
    "font.family": ["DejaVu Sans"],
    "font.size": 11.5,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.labelsize": 11,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.unicode_minus": True,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "path.simplify": False,
}

LIGHT, DARK = (";".join(f"--{each[0]}:{each[which]}" for each in PALETTE.values()) for which in (1, 2))
STYLE = (
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}"
    f":root{{{LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}"
)
"""What stands in every drawing of the page."""

DECADES = tuple(10.0**power for power in range(-6, 7))
TICKS: tuple[tuple[float, ...], ...] = (
    tuple(decade * digit for decade in DECADES for digit in (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8)),
    tuple(decade * digit for decade in DECADES for digit in (1, 1.5, 2, 3, 4, 5, 7)),
    tuple(decade * digit for decade in DECADES for digit in (1, 1.5, 2, 3, 5, 7)),
    tuple(decade * digit for decade in DECADES for digit in (1, 2, 5)),
    DECADES,
    DECADES[::3],
)
"""Where the ticks of an axis over more than a factor of two may stand: the first that has few enough of them."""


# ------------------------------------------------------------------------------------------------ canvas


@contextmanager
def house_style() -> Iterator[None]:
    """Draw inside this: our settings over matplotlib's own defaults, whatever the user has configured."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def canvas(width: int, height: int) -> Figure:
    """An empty figure of a size in CSS pixels."""
    return Figure(figsize=(width / 72, height / 72))


def axes_at(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place given in CSS pixels from the figure's lower left corner."""
    total_width, total_height = figure.get_size_inches() * 72
    axes: Axes = figure.add_axes(
        (left / total_width, bottom / total_height, width / total_width, height / total_height)
    )
    axes.set_axisbelow(True)
    return axes


# ------------------------------------------------------------------------------------------------ ratios


def ratio_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values between the ends of a logarithmic axis, 1 among them where it lies inside; at most so many."""
    if high / low > 2:
        ticks = next(found for steps in TICKS if len(found := [tick for tick in steps if low <= tick <= high]) <= most)
    else:
        sizes = [digit * 10.0**power for power in range(-5, 3) for digit in (1, 2, 5)]
        size = next(size for size in sizes if math.floor(high / size) - math.ceil(low / size) < most)
        ticks = [count * size for count in range(math.ceil(low / size), math.floor(high / size) + 1)]
    return [round(tick, 9) for tick in ticks]


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Ticks as texts, with the same number of decimals where they are close together."""
    labels = [f"{tick:g}" for tick in ticks]
    if ticks and max(ticks) / min(ticks) > 2:
        return labels
    places = max((len(label.partition(".")[2]) for label in labels), default=0)
    return [f"{tick:.{places}f}" for tick in ticks]


def ratio_range(points: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """An axis' ends that hold all points and 1, and whiskers as far as they do not dwarf the points."""
    low, high = min([*points, 1.0]), max([*points, 1.0])
    room = max((high / low) ** 0.5, 1.05)
    low = min(low, max(min([*ends, low]), low / room))
    high = max(high, min(max([*ends, high]), high * room))
    margin = max((high / low) ** 0.05, 1.004)
    return low / margin, high * margin


def ratio_axis(axes: Axes, direction: str, low: float, high: float, most: int = 6) -> None:
    """Make one axis ("x" or "y") logarithmic over a ratio, with round ticks and a faint grid."""
    scale, limits = (axes.set_xscale, axes.set_xlim) if direction == "x" else (axes.set_yscale, axes.set_ylim)
    scale("log")
    limits(low, high)
    ticks = ratio_ticks(low, high, most)
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_minor_locator(NullLocator())
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter(tick_labels(ticks)))
    axes.grid(visible=True, axis="x" if direction == "x" else "y", color=GRID, linewidth=0.8)


def direction_labels(axes: Axes) -> None:
    """Say under a horizontal axis of speedups which way is which."""
    for place, text, align in ((0.0, "← slower", "left"), (0.5, "speedup", "center"), (1.0, "faster →", "right")):
        axes.annotate(
            text,
            (place, 0),
            xycoords="axes fraction",
            xytext=(0, -34),
            textcoords="offset points",
            color=MUTED,
            ha=align,
        )


def rope_band(axes: Axes, direction: str, rope: float) -> None:
    """Shade the region of practical equivalence around the baseline, which is exactly 1."""
    span, line = (axes.axvspan, axes.axvline) if direction == "x" else (axes.axhspan, axes.axhline)
    span(1 / (1 + rope), 1 + rope, color=BAND, linewidth=0)
    line(1.0, color=MUTED, linewidth=1.2)


# ------------------------------------------------------------------------------------------------ into the page

Drawing = Callable[[], Figure]
"""Draws a figure; called inside `house_style`."""


def picture(draw: Drawing, decimals: int = 1) -> Picture:
    """A drawing for the page: a small SVG in a data URI."""
    with house_style(), warnings.catch_warnings():
        # Text stays text: a letter that matplotlib's own font lacks is drawn by the reader's.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = draw()
        FigureCanvasSVG(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        width, height = figure.get_size_inches() * 72
    source = "data:image/svg+xml," + urllib.parse.quote(small_svg(text.getvalue(), decimals), safe="=:/,;()!*@$+?")
    return Picture(source, round(width), round(height))


def write_png(draw: Drawing, path: Path) -> None:
    """A drawing as a PNG for slides, on white, at three dots a CSS pixel."""
    with house_style():
        figure = draw()
        FigureCanvasAgg(figure)
        figure.savefig(path, format="png", dpi=216, facecolor="white", metadata={"Software": None})


NOISE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", re.S), ""),
    (re.compile(r"<style.*?</style>", re.S), ""),
    (re.compile(r' xmlns:xlink="[^"]*"| version="1.1"| id="[A-Za-z][A-Za-z0-9.]*_\d+"'), ""),
    (re.compile(r"font-family: [^;\"]*;? ?"), ""),
    (
        re.compile(
            r"<g [^>]*>\s*<path d=\"[^\"]*\" style=\"fill: none\"/>\s*</g>|<path d=\"[^\"]*\" style=\"fill: none\"/>"
        ),
        "",
    ),
    (re.compile(r"\bxlink:href="), "href="),
    (re.compile(r' transform="rotate\(-?0 [^"]*\)"'), ""),
    (re.compile(r"stroke-linejoin: miter;? ?|stroke-linecap: square;? ?"), ""),
    (re.compile(r"\s*\n\s*"), " "),
    (re.compile(r"> <"), "><"),
    (re.compile(r": "), ":"),
    (re.compile(r"; "), ";"),
    (re.compile(r' style=""'), ""),
)
"""What matplotlib writes that a page does not need."""


def small_svg(svg: str, decimals: int = 1) -> str:
    """An SVG without metadata, comments and needless digits, and with colours that follow the reader's scheme."""
    texts: list[str] = []

    def lay_aside(found: re.Match[str]) -> str:
        texts.append(found.group(1))
        return f">\x00{len(texts) - 1}\x00</text>"

    svg = re.sub(r">([^<>]*)</text>", lay_aside, svg)
    for pattern, replacement in NOISE:
        svg = pattern.sub(replacement, svg)
    svg = re.sub(r"-?\d+\.\d+", lambda found: f"{float(found.group()):.{decimals}f}".rstrip("0").rstrip("."), svg)
    svg = re.sub(r"(?<= d=\")[^\"]*", lambda found: _short_path(found.group()), svg)
    for colour, (name, _, _) in PALETTE.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = svg.replace(">", f"><style>{STYLE}</style>", 1).replace('"', "'").strip()
    return re.sub("\x00(\\d+)\x00", lambda found: texts[int(found.group(1))], svg)


def _short_path(path: str) -> str:
    """A path's data without spaces, which a data URI would spell in three characters each."""
    return re.sub(r" ?([A-Za-z]) ?", r"\1", path.strip()).replace(" ", ",")
