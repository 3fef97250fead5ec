"""Draws every window of both arms of a comparison, by block and process: nothing is averaged away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.record import TrialRecord
from harness.report.data import Arrays, ReportData, Row, passed
from harness.report.figures import BAND, COLOURS, INK, MUTED, axes_at, canvas
from harness.report.format import SCALES, fixed, look, quantities
from harness.report.view import FigureView, Picture, Table, table

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
    unit, size = next((scale for scale in reversed(SCALES["ns"]) if longest >= scale[1]), SCALES["ns"][0])
    for index in range(0, len(blocks), 2):
        axes.axvspan(index, index + 1, color=BAND, linewidth=0)
    for index, block in enumerate(blocks):
        mine = [process for process in arm if process.block == block]
        for place, process in enumerate(mine):
            start, width = index + (place + 0.08) / len(mine), 0.84 / len(mine)
            x = np.linspace(start, start + width, len(process.times))
            axes.plot(x, np.asarray(process.times) / size, color=colour, linewidth=1.1, solid_joinstyle="round")
    axes.set_xlim(0, max(1, len(blocks)))
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.set_title(f"{name}, {unit} a step", loc="left", fontsize=10.5, color=MUTED, pad=4)


def view(row: Row, baseline: list[Process], treated: list[Process], picture: Picture) -> FigureView:
    """The windows with their words, and per process the numbers."""
    many = sum(len(process.times) for process in [*baseline, *treated])
    return FigureView(
        pictures=(picture,),
        alternative=f"Time per step of all {many} windows: the baseline above, {row.arm} below, block by block. "
        "Medians, least and greatest of every process are in the table below the figure.",
        caption=f"Every window ({many}), warm-up excluded: a line a process, blocks side by side. The two axes differ.",
        numbers=(_numbers("Processes of the baseline", baseline), _numbers(f"Processes of {row.arm}", treated)),
    )


def _numbers(caption: str, arm: list[Process]) -> Table:
    rows = []
    for process in arm:
        times = np.asarray(process.times)
        texts = quantities([float(np.median(times)), float(times.min()), float(times.max())], "ns")
        spread = fixed(100 * float(times.std()) / float(times.mean()), 1) + "\u00a0%"
        block, place = process.block[1] + 1, (process.trial.position or 0) + 1
        rows.append((str(block), str(place), str(len(times)), *texts, spread))
    columns = "block | # place in block | # windows | # median | # least | # greatest | # sd / mean"
    return table(caption, columns, rows)
