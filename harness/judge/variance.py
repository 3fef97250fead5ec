"""Where the noise comes from, and how many windows the next run should take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.judge.estimate import Floats
from harness.judge.pairing import Contrast, Pair
from harness.judge.processes import Process

MEAN = "step_time_mean"
FEWEST_WINDOWS, MOST_WINDOWS = 5, 120


@dataclass(frozen=True, kw_only=True)
class Split:
    """Noise of one arm's processes on the log scale, and what it asks for."""

    process_sd: float
    """Between processes, the windows' share taken out."""
    window_sd: float
    """Between windows of one process."""
    autocorrelation: float
    windows: float
    """Steady windows a process, on average."""
    recommended_windows: int


def split_variance(pairs: Sequence[Pair]) -> Split | None:
    """Split the noise of a contrast's treated processes; None with fewer than 3 blocks or 3 windows.

    The variance of a block difference of log mean steps is (1 + 1/r) (process^2 + tau window^2 / n) for r baseline
    replicates of n windows, tau = (1 + rho) / (1 - rho); what the windows do not explain is the processes'.
    """
    if len(pairs) < 3:
        return None
    inside = [log_windows(pair.treated, pair.start) for pair in pairs]
    if min(map(len, inside)) < 3:
        return None
    rho = pooled_autocorrelation(inside)
    tau = (1 + rho) / (1 - rho)
    counts = np.array([len(series) for series in inside], dtype=np.float64)
    window = float(np.mean([series.var(ddof=1) for series in inside]))
    # the sample variance of n correlated windows misses what their common mean takes with it
    window /= max(1 - (tau - 1) / float(counts.mean()), 0.1)
    replicates = float(np.mean([len(pair.baselines.processes) for pair in pairs]))
    between = float(np.var([_mean_difference(pair) for pair in pairs], ddof=1)) / (1 + 1 / replicates)
    process = max(between - tau * window / float(counts.mean()), 0.0)
    return Split(
        process_sd=math.sqrt(process),
        window_sd=math.sqrt(window),
        autocorrelation=rho,
        windows=float(counts.mean()),
        recommended_windows=recommended_windows(process, window, tau, *_costs(pair.treated for pair in pairs)),
    )


def _mean_difference(pair: Pair) -> float:
    """Block difference of the log mean step."""
    after = pair.treated.value(MEAN, pair.start)
    assert after is not None
    return math.log(after) - pair.baselines.mean_log(MEAN)


def log_windows(process: Process, start: int) -> Floats:
    """Log time per step of the steady windows."""
    return np.asarray(np.log(process.per_step_ns[start:]))


def pooled_autocorrelation(series: Iterable[Floats]) -> float:
    """Lag-1 autocorrelation over several short series, corrected for their own means: rho + (1 + 3 rho) / n (Kendall
    1954).
    """
    lagged, squares, lengths = 0.0, 0.0, []
    for one in series:
        deviation = one - one.sum() / len(one)
        lagged += float(deviation[1:] @ deviation[:-1])
        squares += float(deviation @ deviation)
        lengths.append(len(one))
    raw = lagged / squares if squares > 0 else 0.0
    return float(np.clip(raw + (1 + 3 * raw) / np.mean(lengths), 0.0, 0.95))


def recommended_windows(process: float, window: float, tau: float, process_cost: float, window_cost: float) -> int:
    """Windows a process that give the smallest error for the time spent (variances and costs in any common unit).

    n* = sqrt(cost_process / cost_window * tau * var_window / var_process): the optimum of two-stage sampling (Cochran
    1977, 10.6); within 5 to 120.
    """
    if process <= 0:
        return MOST_WINDOWS if window > 0 else FEWEST_WINDOWS
    best = math.sqrt(max(process_cost, 0.0) / window_cost * tau * window / process) if window_cost > 0 else 0.0
    return int(min(max(math.ceil(best), FEWEST_WINDOWS), MOST_WINDOWS))


def _costs(processes: Iterable[Process]) -> tuple[float, float]:
    """Mean time of a process outside its windows, and of one window, in ns."""
    fixed, window = [], []
    for process in processes:
        timed = float(process.windows["host_ns"].sum())
        window.append(timed / len(process.per_step_ns))
        if process.record.duration_ns is not None:
            fixed.append(process.record.duration_ns - timed)
        elif process.record.startup_total_ns is not None:
            fixed.append(float(process.record.startup_total_ns))
    return (float(np.mean(fixed)) if fixed else 0.0), float(np.mean(window))


def as_rows(found: Iterable[Contrast]) -> list[dict[str, float | str]]:
    """The splits of all contrasts that have one, as the judgement carries them."""
    rows: list[dict[str, float | str]] = []
    for contrast in found:
        split = split_variance(contrast.pairs)
        if split is not None:
            rows.append(
                {
                    "hardware_id": contrast.place.hardware_id,
                    "workload": contrast.place.workload,
                    "axes": ", ".join(f"{name}={value}" for name, value in contrast.place.axes),
                    "arm": contrast.arm,
                    "process_sd": split.process_sd,
                    "window_sd": split.window_sd,
                    "autocorrelation": split.autocorrelation,
                    "windows": split.windows,
                    "recommended_windows": split.recommended_windows,
                }
            )
    return rows
