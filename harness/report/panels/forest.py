"""The forest plot: every speedup as a dot with its interval, on a logarithmic axis, the baseline at exactly 1.00."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.data import DETAILED, ReportData, Row
from harness.report.figures import (
    COLOURS,
    INK,
    MARKERS,
    PAPER,
    Drawing,
    axes_at,
    canvas,
    direction_labels,
    picture,
    ratio_axis,
    ratio_range,
    rope_band,
)
from harness.report.format import GLYPHS, count, interval, level, look, shortened, speedup
from harness.report.view import FigureView, Panel, Table, table


@dataclass(frozen=True)
class Layout:
    """Where things stand in the plot, in CSS pixels."""

    width: int
    axis_left: int
    axis_width: int
    row_height: int
    label_above: bool
    """On a narrow plot the arm's name stands above its whisker, else to the left of it."""
    label_length: int


WIDE = Layout(width=860, axis_left=330, axis_width=370, row_height=27, label_above=False, label_length=46)
NARROW = Layout(width=340, axis_left=8, axis_width=262, row_height=44, label_above=True, label_length=44)
HEAD, FOOT, HEADING = 4, 46, 34
"""Room above the first row, below the last, and for a place's heading."""


def panel(data: ReportData) -> Panel | None:
    """The figure for the first comparisons that have a number, in the table's order."""
    rows = plotted(data)
    if not rows:
        return None
    rope = data.judgement.experiment.analysis.rope
    left_out = sum(1 for row in data.rows if row.comparison.speedup is not None) - len(rows)
    rest = (
        f" The first {len(rows)} of the table that have a number; {left_out} more are in the table above."
        if left_out
        else ""
    )
    low, high = _range(rows)
    figure = FigureView(
        pictures=(picture(partial(draw, rows, rope, NARROW)), picture(partial(draw, rows, rope, WIDE))),
        alternative=f"Forest plot of {count(len(rows), 'speedup')} with intervals on a logarithmic axis from {low:.2g} "
        f"to {high:.2g}; the baseline stands at 1. The numbers are in the table below the figure.",
        caption=f"Speedup (before / after) with the interval that decided. Right of 1 is faster. The band is the "
        f"region of practical equivalence, ±{rope * 100:g}\u00a0%. Filled: decided; hollow: not.{rest}",
        numbers=(_numbers(rows),),
    )
    return Panel("forest", "Speedups at a glance", "figure.html", (figure,))


def plotted(data: ReportData) -> tuple[Row, ...]:
    """The comparisons that are drawn: the first of the table that have a number."""
    return tuple(row for row in data.rows if row.comparison.speedup is not None)[:DETAILED]


def drawings(data: ReportData) -> dict[str, Drawing]:
    """For slides."""
    rows = plotted(data)
    return {"speedups": partial(draw, rows, data.judgement.experiment.analysis.rope, WIDE)} if rows else {}


def draw(rows: tuple[Row, ...], rope: float, layout: Layout) -> Figure:
    """One line a comparison, a heading where the place changes."""
    places = list(dict.fromkeys(row.place for row in rows))
    headings = len(places) if len(places) > 1 else 0
    height = HEAD + FOOT + layout.row_height * len(rows) + HEADING * headings
    figure = canvas(layout.width, height)
    axes = axes_at(figure, layout.axis_left, FOOT, layout.axis_width, height - HEAD - FOOT)
    low, high = _range(rows)
    rope_band(axes, "x", rope)
    ratio_axis(axes, "x", low, high, 4 if layout.label_above else 6)
    axes.set_ylim(height - FOOT, HEAD)
    axes.set_yticks([])
    direction_labels(axes)
    y = float(HEAD)
    for place in places:
        if headings:
            _write(axes, 2 - layout.axis_left, y + HEADING - 12, shortened(place.title, 50), INK, bold=True)
            y += HEADING
        for row in (row for row in rows if row.place == place):
            _draw_row(axes, row, y, (low, high), layout)
            y += layout.row_height
    return figure


def _draw_row(axes: Axes, row: Row, top: float, ends: tuple[float, float], layout: Layout) -> None:
    comparison = row.comparison
    assert comparison.speedup is not None
    tone = look(comparison).tone
    colour = COLOURS[tone]
    y = top + layout.row_height * (0.68 if layout.label_above else 0.5)
    label_y = top + 14 if layout.label_above else y
    _write(axes, 2 - layout.axis_left, label_y, shortened(row.label, layout.label_length), INK)
    low, high = comparison.ci_low or comparison.speedup, comparison.ci_high or comparison.speedup
    axes.plot([max(low, ends[0]), min(high, ends[1])], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
    for end, beyond, arrow in ((ends[0], low < ends[0], "<"), (ends[1], high > ends[1], ">")):
        if beyond:
            axes.plot([end], [y], arrow, color=colour, markersize=6, clip_on=False)
    hollow = tone in ("open", "absent")
    face = PAPER if hollow else colour
    point = min(max(comparison.speedup, ends[0]), ends[1])
    axes.plot(
        [point], [y], MARKERS[tone], markersize=6.5, markerfacecolor=face, markeredgecolor=colour, markeredgewidth=1.6
    )
    number = speedup(comparison.speedup, comparison.ci_low, comparison.ci_high)
    bounds = (
        f" ({interval(comparison.ci_low, comparison.ci_high, '–')})"
        if comparison.ci_low and not layout.label_above
        else ""
    )
    _write(axes, layout.axis_width + 10, y, f"{GLYPHS[comparison.verdict]} {number}{bounds}", colour)


def _write(axes: Axes, x: float, y: float, text: str, colour: str, bold: bool = False) -> None:
    """Text at pixels from the axes' left edge, at a row of the data."""
    axes.annotate(
        text,
        (0, y),
        xycoords=("axes fraction", "data"),
        xytext=(x, 0),
        textcoords="offset points",
        va="center",
        color=colour,
        fontweight="bold" if bold else "normal",
        annotation_clip=False,
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
    )


def _range(rows: tuple[Row, ...]) -> tuple[float, float]:
    points = [row.comparison.speedup for row in rows if row.comparison.speedup]
    ends = [end for row in rows for end in (row.comparison.ci_low, row.comparison.ci_high) if end]
    return ratio_range(points, ends)


def _numbers(rows: tuple[Row, ...]) -> Table:
    body = []
    for row in rows:
        each = row.comparison
        numbers = (speedup(each.speedup, each.ci_low, each.ci_high), interval(each.ci_low, each.ci_high))
        unadjusted = interval(each.raw_ci_low, each.raw_ci_high)
        p_value = "–" if each.adjusted_p is None else f"{each.adjusted_p:.2g}"
        body.append(
            (row.label, row.place.short, *numbers, level(each.ci_level), unadjusted, p_value, str(each.verdict))
        )
    return table(
        "Speedups with the interval that decided, and the unadjusted 95 % interval",
        "treatment | place | # speedup | # interval | # level | # unadjusted 95 % | # adjusted p | verdict",
        body,
    )
