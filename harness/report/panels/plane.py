"""The time-memory plane: what each treatment gains in speed against what it costs or saves in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.data import ReportData, Row
from harness.report.figures import (
    COLOURS,
    INK,
    MARKERS,
    MUTED,
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
from harness.report.format import change, count, interval, look, quantities, speedup
from harness.report.view import FigureView, Panel, table

PLOTTED = 24
"""Up to so many points are drawn: more would hide one another."""


@dataclass(frozen=True)
class Point:
    """One comparison in the plane."""

    row: Row
    speedup: float
    memory: float
    """Peak memory after / before: below 1 is less."""


@dataclass(frozen=True)
class Plane:
    """The section: the figure, and what its numbers stand for, in order."""

    figure: FigureView
    key: tuple[str, ...]


def panel(data: ReportData) -> Panel | None:
    """The figure with a numbered key, where peak memory was judged and differs somewhere."""
    points = plotted(data)
    if not points:
        return None
    several = len(data.places) > 1
    drawn = partial(draw, points)
    rows = [
        (
            f"{index}. {point.row.arm}",
            point.row.place.short if several else point.row.place.workload,
            speedup(point.speedup, point.row.comparison.ci_low, point.row.comparison.ci_high),
            interval(point.row.comparison.ci_low, point.row.comparison.ci_high),
            *_memory(point.row),
            change(point.memory),
        )
        for index, point in enumerate(points, 1)
    ]
    figure = FigureView(
        pictures=(picture(partial(drawn, 340)), picture(partial(drawn, 560))),
        alternative=f"Plane of speedup against relative peak memory with {count(len(points), 'numbered point')}; the "
        "baseline stands at 1 and 1. The key and the numbers are in the table below the figure.",
        caption="Right is faster, down is less memory: the lower right is better in both. Whiskers are the intervals; "
        "the small grey diamond is the baseline.",
        numbers=(
            table(
                "Speedup and peak memory",
                "treatment | workload | # speedup | # interval | # memory before | # memory after | # change",
                rows,
            ),
        ),
    )
    key = tuple(f"{point.row.arm} ({point.row.place.short})" if several else point.row.arm for point in points)
    return Panel("plane", "Time against memory", "plane.html", Plane(figure, key))


def plotted(data: ReportData) -> tuple[Point, ...]:
    """The comparisons in the leading metric that have both numbers."""
    points = []
    for row in (each for each in data.rows if each.comparison.metric == data.metrics[0]):
        memory, ratio = row.memory, row.comparison.speedup
        if memory is not None and memory.before and memory.after and ratio:
            points.append(Point(row, ratio, memory.after / memory.before))
    return tuple(points[:PLOTTED])


def drawings(data: ReportData) -> dict[str, Drawing]:
    """For slides."""
    points = plotted(data)
    return {"time-memory": partial(draw, points, 560)} if points else {}


def draw(points: tuple[Point, ...], width: int) -> Figure:
    """The plane; both axes are ratios to the baseline."""
    height = round(width * 0.6) + 60
    figure = canvas(width, height)
    axes = axes_at(figure, 44, 46, width - 64, height - 62)
    ends = [end for point in points for end in (point.row.comparison.ci_low, point.row.comparison.ci_high) if end]
    rope_band(axes, "x", 0.0)
    rope_band(axes, "y", 0.0)
    left, right = ratio_range([point.speedup for point in points], ends)
    low, high = ratio_range([point.memory for point in points], [])
    ratio_axis(axes, "x", left / 1.02, right * 1.02, 5)
    ratio_axis(axes, "y", low / 1.03, high * 1.03, 5)
    direction_labels(axes)
    axes.set_ylabel("peak memory, after / before", labelpad=6)
    axes.plot([1], [1], "D", markersize=5, color=MUTED)
    for index, point in enumerate(points, 1):
        _draw_point(axes, index, point)
    return figure


def _draw_point(axes: Axes, index: int, point: Point) -> None:
    comparison = point.row.comparison
    tone = look(comparison).tone
    colour = COLOURS[tone]
    if comparison.ci_low and comparison.ci_high:
        axes.plot([comparison.ci_low, comparison.ci_high], [point.memory] * 2, color=colour, linewidth=1.6)
    face = PAPER if tone in ("open", "absent") else colour
    axes.plot(
        [point.speedup], [point.memory], MARKERS[tone], markersize=8, markerfacecolor=face, markeredgecolor=colour
    )
    axes.annotate(
        str(index),
        (point.speedup, point.memory),
        xytext=(6, 5),
        textcoords="offset points",
        color=INK,
        fontweight="bold",
    )


def _memory(row: Row) -> tuple[str, str]:
    assert row.memory is not None
    before, after = quantities([row.memory.before, row.memory.after], row.memory.unit)
    return before, after
