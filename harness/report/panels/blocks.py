"""Draws the blocks of one comparison: one dot a block, the estimate and its interval behind them."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.report.data import Row
from harness.report.figures import (
    BAND,
    COLOURS,
    GRID,
    INK,
    MUTED,
    PAPER,
    axes_at,
    canvas,
    ratio_axis,
    ratio_range,
)
from harness.report.format import count, fixed, interval, look, quantities, speedup
from harness.report.view import FigureView, Picture, Table, table

WIDTH, HEIGHT = 340, 190


def draw(row: Row, rope: float) -> Figure:
    """The strip: block by block, before / after on a logarithmic axis; hollow where the treated arm ran first."""
    comparison = row.comparison
    colour = COLOURS[look(comparison).tone]
    figure = canvas(WIDTH, HEIGHT)
    axes = axes_at(figure, 44, 42, WIDTH - 52, HEIGHT - 52)
    ratios = [point.before / point.after for point in comparison.points]
    ends = [end for end in (comparison.ci_low, comparison.ci_high) if end]
    low, high = _range(ratios, ends)
    ratio_axis(axes, "y", low, high, 5)
    if low < 1 + rope and high > 1 / (1 + rope):
        axes.axhspan(1 / (1 + rope), 1 + rope, color=BAND, linewidth=0)
        axes.axhline(1.0, color=MUTED, linewidth=1.2)
    if comparison.speedup and ends:
        axes.axhspan(max(ends[0], low), min(ends[-1], high), color=colour, alpha=0.16, linewidth=0)
        axes.axhline(comparison.speedup, color=colour, linewidth=1.4)
    for ran_after, face in ((True, colour), (False, PAPER)):
        mine = [index for index, point in enumerate(comparison.points) if (point.order > 0) == ran_after]
        (dots,) = axes.plot([index + 1 for index in mine], [ratios[index] for index in mine], "o", markersize=6)
        dots.set(markerfacecolor=face, markeredgecolor=colour, markeredgewidth=1.4)
    for index in _session_starts(row):
        axes.axvline(index + 0.5, color=GRID, linewidth=1.2, linestyle=(0, (2, 2)))
    axes.set_xlim(0.4, len(ratios) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.set_xlabel("block", color=INK, labelpad=4)
    return figure


def _range(ratios: list[float], ends: list[float]) -> tuple[float, float]:
    """The ends of the axis: around the blocks, with 1 in view only where it is near them."""
    middle = (max(ratios) * min(ratios)) ** 0.5
    spread = max(max(ratios) / min(ratios), 1.02)
    near_one = max(middle, 1 / middle) < spread**2
    low, high = ratio_range([ratio / middle for ratio in ratios], [end / middle for end in ends])
    low, high = low * middle, high * middle
    return (min(low, 0.995), max(high, 1.005)) if near_one else (low, high)


def _session_starts(row: Row) -> list[int]:
    """After which block another session begins."""
    points = row.comparison.points
    return [index for index in range(1, len(points)) if points[index].session_id != points[index - 1].session_id]


def view(row: Row, picture: Picture) -> FigureView:
    """The strip with its words and numbers."""
    comparison = row.comparison
    return FigureView(
        pictures=(picture,),
        alternative=f"Speedup of {row.arm} block by block, {count(len(comparison.points), 'block')}; the estimate is "
        f"{speedup(comparison.speedup, comparison.ci_low, comparison.ci_high)}, interval "
        f"{interval(comparison.ci_low, comparison.ci_high)}. The numbers are in the table below the figure.",
        caption=f"Speedup in each of {count(len(comparison.points), 'block')}.",
        numbers=(numbers(row),),
    )


def numbers(row: Row) -> Table:
    """Every block's values."""
    comparison = row.comparison
    values = [value for point in comparison.points for value in (point.before, point.after)]
    texts = quantities(values, comparison.unit, 0.001)
    sessions = list(dict.fromkeys(point.session_id for point in comparison.points))
    rows = [
        (
            str(point.block_index + 1),
            texts[2 * index],
            texts[2 * index + 1],
            fixed(point.before / point.after, 4),
            "after" if point.order > 0 else "before",
            str(sessions.index(point.session_id) + 1),
        )
        for index, point in enumerate(comparison.points)
    ]
    columns = "block | # baseline | # treated | # speedup | treated ran | # session"
    return table(f"Blocks of {row.arm}", columns, rows)
