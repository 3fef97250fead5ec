"""Draws every window of both arms of a comparison, by block and process: nothing is averaged away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.record import TrialRecord
from harness.report.data import Arrays, ReportData, Row, passed
from harness.report.figures import BAND, COLOURS, INK, MUTED, axes_at, canvas
from harness.report.format import look, significant, time_scale
from harness.report.view import FigureView, Picture, Table, table

Array = npt.NDArray[np.float64]
WIDTH, HEIGHT = 340, 240


@dataclass(frozen=True)
class Process:
    """One process' windows: time per step in nanoseconds, in order."""

    block: tuple[str, int]
    """Session and block index."""
    trial: TrialRecord
    times: tuple[float, ...]


def processes(data: ReportData, trials: Sequence[TrialRecord]) -> list[Process]:
    """The processes of an arm that passed, each with its windows; several ranks count as the slowest."""
    found = []
    for trial in passed(trials):
        times = _times(data.windows.get(trial.trial_id, {}))
        if times and trial.block_index is not None:
            found.append(Process((trial.session_id, trial.block_index), trial, times))
    return found


def _times(windows: Arrays) -> tuple[float, ...]:
    if "host_ns" not in windows or len(windows["host_ns"]) == 0:
        return ()
    per_step = np.asarray(windows["host_ns"], dtype=float) / np.asarray(windows["step_count"], dtype=float)
    if "rank" in windows and "window_index" in windows and np.any(np.asarray(windows["rank"]) != 0):
        index = np.asarray(windows["window_index"], dtype=int)
        slowest = np.zeros(index.max() + 1)
        np.maximum.at(slowest, index, per_step)
        per_step = slowest[slowest > 0]
    return tuple(float(value) for value in per_step)


def draw(row: Row, baseline: list[Process], treated: list[Process]) -> Figure:
    """Baseline above, treated below, with the blocks side by side; a line a process, a step in time a window."""
    figure = canvas(WIDTH, HEIGHT)
    half = (HEIGHT - 92) / 2
    blocks = sorted({process.block for process in [*baseline, *treated]})
    upper, lower = axes_at(figure, 50, 42 + half + 26, WIDTH - 58, half), axes_at(figure, 50, 42, WIDTH - 58, half)
    _draw_arm(upper, "baseline", baseline, blocks, MUTED)
    _draw_arm(lower, "treated", treated, blocks, COLOURS[look(row.comparison).tone])
    upper.set_xticks([])
    upper.spines["bottom"].set_visible(False)
    centres = [index + 0.5 for index in range(len(blocks))]
    stride = max(1, -(-len(blocks) // 8))
    lower.set_xticks(centres[::stride], [str(block[1] + 1) for block in blocks[::stride]])
    lower.set_xlabel("block", color=INK, labelpad=4)
    return figure


def _draw_arm(axes: Axes, name: str, arm: list[Process], blocks: list[tuple[str, int]], colour: str) -> None:
    """One arm's windows; every other block is shaded."""
    longest = max((max(process.times) for process in arm), default=1.0)
    unit, size = time_scale(longest)
    for index in range(0, len(blocks), 2):
        axes.axvspan(index, index + 1, color=BAND, linewidth=0)
    x, y = _lines(arm, blocks)
    axes.plot(x, y / size, color=colour, linewidth=1.1, solid_joinstyle="round")
    axes.set_xlim(0, max(1, len(blocks)))
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.set_title(f"{name}, {unit} a step", loc="left", fontsize=10.5, color=MUTED, pad=4)


def _lines(arm: list[Process], blocks: list[tuple[str, int]]) -> tuple[Array, Array]:
    """All processes as one line, broken between them: a block is one wide, its processes share it."""
    x: list[Array] = [np.empty(0)]
    y: list[Array] = [np.empty(0)]
    for index, block in enumerate(blocks):
        mine = [process for process in arm if process.block == block]
        for place, process in enumerate(mine):
            start, width = index + (place + 0.08) / len(mine), 0.84 / len(mine)
            x += [np.linspace(start, start + width, len(process.times)), np.array([np.nan])]
            y += [np.asarray(process.times), np.array([np.nan])]
    return np.concatenate(x), np.concatenate(y)


def view(row: Row, baseline: list[Process], treated: list[Process], picture: Picture) -> FigureView:
    """The windows with their words, and their numbers by block."""
    many = sum(len(process.times) for process in [*baseline, *treated])
    return FigureView(
        pictures=(picture,),
        alternative=f"Time per step of all {many} windows: the baseline above, {row.arm} below, block by block. "
        "Medians, least and greatest of every block are in the table below the figure.",
        caption=f"Time per step in each of {many} windows, by block and process.",
        numbers=(_numbers(row, baseline, treated),),
    )


def _numbers(row: Row, baseline: list[Process], treated: list[Process]) -> Table:
    """By block and arm: how many windows, their median, least and greatest."""
    longest = max(time for process in [*baseline, *treated] for time in process.times)
    unit, size = time_scale(longest)
    rows = []
    for block in sorted({process.block for process in [*baseline, *treated]}):
        cells = [str(block[1] + 1)]
        for arm in (baseline, treated):
            times = np.array([time for process in arm if process.block == block for time in process.times]) / size
            known = len(times) > 0
            values = (float(np.median(times)), float(times.min()), float(times.max())) if known else (None,) * 3
            cells += [str(len(times) or "none"), *(significant(value, 4) for value in values)]
        rows.append(cells)
    columns = " | ".join(
        f"# {arm} {what}" for arm in ("baseline", "treated") for what in ("windows", "median", "least", "most")
    )
    return table(f"Windows of {row.arm} and its baseline, {unit} a step, by block", f"block | {columns}", rows)
