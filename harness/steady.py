"""Where a process became steady, found from its windows: the child asks whether to go on, the judge where to cut.

Pure numpy, nothing of ours. Everything works on a batch of series of equal length, shape (series, windows), so that the
judge cuts thousands of processes at once and the self-test simulates with the very code that decides; `find_steady` is
the batch of one.

The method is optimal partitioning of the log times (Killick, Fearnhead & Eckley 2012: L2 cost, one penalty a change)
with the noise's scale and autocorrelation taken from lagged differences, which level shifts hardly touch (Chakar,
Lebarbier, Levy-Leduc & Robin 2017), beside an exponential decay fitted to the same series, because a decay's tail is too
flat for a partition to see and too tall to ignore. The better of the two says where the steady part starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PENALTY = 3.0
"""Price of a change in units of ln(windows) times the long-run variance."""
SAME_LEVEL = 0.005
"""Neighbouring segments whose levels differ by less (relative) are one level."""
KEPT_SHARE = 0.4
"""At least this share of the windows must be steady."""
FEWEST_WINDOWS = 5
"""Below this nothing can be said: two levels and a trend need that many points."""
FEWEST_KEPT = 3
HARMLESS_TREND = 0.005
"""A slope that moves the level by less than this over the kept part is not worth a longer run."""
HARMLESS_TAIL = 0.0005
"""A fitted decay may add this much (relative) to the mean of the kept part."""
MOST_AUTOCORRELATION = 0.95
PRIOR_AUTOCORRELATION = 0.5
"""What a short series' autocorrelation is drawn towards, with the weight of `PRIOR_WINDOWS` windows."""
PRIOR_WINDOWS = 10.0
MAD_TO_SD = 1.4826


@dataclass(frozen=True)
class Steady:
    """What a process's windows say: the steady part is `windows[start:]`, if `ok`; else `reason` says why not."""

    start: int
    kept: int
    ok: bool
    reason: str
    autocorrelation: float = 0.0


@dataclass(frozen=True)
class SteadyBatch:
    """The same for many processes with equally many windows: arrays of shape (series,)."""

    start: Ints
    enough: Bools
    """Whether the share kept is large enough."""
    level: Bools
    """Whether no trend is left in what is kept."""
    autocorrelation: Floats

    @property
    def ok(self) -> Bools:
        return self.enough & self.level


def find_steady(window_ns_per_step: ArrayLike, minimum: int = FEWEST_WINDOWS, earliest: int = 0) -> Steady:
    """Say from where on one process is steady.

    `window_ns_per_step`: time per step of each window, in order, in any unit. `minimum`: fewer windows than this are never
    enough. `earliest`: the first window that may be kept (see `earliest_start`).
    """
    times = np.asarray(window_ns_per_step, dtype=np.float64)
    count = len(times)
    if count < max(minimum, FEWEST_WINDOWS):
        return Steady(count, 0, False, f"{count} windows, at least {max(minimum, FEWEST_WINDOWS)} are needed")
    if not np.all(np.isfinite(times)) or np.any(times <= 0):
        return Steady(count, 0, False, "a window has no positive time")
    batch = find_steady_batch(times[None, :], np.array([earliest]))
    start, kept = int(batch.start[0]), count - int(batch.start[0])
    if not batch.enough[0]:
        reason = f"only the last {kept} of {count} windows are at one level"
    elif not batch.level[0]:
        reason = f"the last {kept} of {count} windows still have a trend"
    else:
        reason = ""
    return Steady(start, kept, reason == "", reason, float(batch.autocorrelation[0]))


def earliest_start(compiles: Sequence[float] | Floats, reserved_bytes: Sequence[float] | Floats) -> int:
    """The first window after the last one that compiled something or in which the allocator's reserve changed.

    Both per window, NaN where unknown; either may be empty.
    """
    compiled = np.asarray(compiles, dtype=np.float64) > 0
    reserved = np.asarray(reserved_bytes, dtype=np.float64)
    changed = np.abs(reserved[1:] - reserved[:-1]) > 0
    return max(_last(compiled) + 1, _last(changed) + 2 if changed.any() else 0)


def _last(mask: Bools) -> int:
    """Index of the last true value, -1 where there is none."""
    return int(np.flatnonzero(mask)[-1]) if mask.any() else -1


def find_steady_batch(times: Floats, earliest: Ints | None = None) -> SteadyBatch:
    """`find_steady` for a batch: `times` of shape (series, windows), all positive; `earliest` of shape (series,)."""
    logs = np.log(times)
    logs = logs - logs.mean(axis=1, keepdims=True)
    scale, rho = noise(logs)
    logs = without_spikes(logs, scale)
    penalty = PENALTY * np.log(logs.shape[1]) * scale**2 * (1 + rho) / (1 - rho) ** 2
    start, cost = partition_start(logs, penalty)
    decay_start, decay_cost = decay_end(logs, penalty)
    start = np.where(decay_cost < cost, np.maximum(start, decay_start), start)
    if earliest is not None:
        start = np.maximum(start, earliest)
    count = logs.shape[1]
    enough = (count - start) >= max(FEWEST_KEPT, KEPT_SHARE * count)
    return SteadyBatch(start, enough, ~has_trend(logs, start, rho), rho)


def noise(logs: Floats) -> tuple[Floats, Floats]:
    """Innovation-like scale (sd of a difference over sqrt 2) and lag-1 autocorrelation of each series, robust to shifts.

    For an AR(1) series the variance of a lag-2 difference over that of a lag-1 difference is 1 + rho (Chakar et al.
    2017, eq. 4), of a lag-3 one 1 + rho + rho^2. Short series are drawn towards `PRIOR_AUTOCORRELATION`.
    """
    spread = [_mad(logs[:, lag:] - logs[:, :-lag]) for lag in (1, 2, 3)]
    floor = np.finfo(np.float64).eps * 8
    one, two, three = (np.maximum(value, floor) ** 2 for value in spread)
    from_two = two / one - 1
    from_three = (np.sqrt(np.maximum(4 * three / one - 3, 0)) - 1) / 2
    count = logs.shape[1]
    raw = np.clip((from_two + from_three) / 2, 0, MOST_AUTOCORRELATION)
    rho = (raw * count + PRIOR_AUTOCORRELATION * PRIOR_WINDOWS) / (count + PRIOR_WINDOWS)
    return np.sqrt(one / 2), rho


def _mad(values: Floats) -> Floats:
    """Standard deviation from the median absolute value, for differences (whose median is 0 by construction)."""
    return np.asarray(MAD_TO_SD * np.median(np.abs(values), axis=1))


def without_spikes(logs: Floats, scale: Floats) -> Floats:
    """Pull lone outliers to 3 scales from the running median of 5, so that no segment is spent on them.

    The first two windows stay as they are: what is slow there is warm-up, and is to be cut.
    """
    padded = np.pad(logs, ((0, 0), (2, 2)), mode="reflect")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5, axis=1), axis=2)
    reach = 3 * scale[:, None]
    pulled = np.clip(logs, middle - reach, middle + reach)
    pulled[:, :2] = logs[:, :2]
    return np.asarray(pulled)


def partition_start(logs: Floats, penalty: Floats) -> tuple[Ints, Floats]:
    """Optimal partition of each series: where its last level starts, and the cost of the whole partition."""
    best, previous = optimal_partition(logs, penalty)
    series, count = logs.shape
    total = np.concatenate([np.zeros((series, 1)), np.cumsum(logs, axis=1)], axis=1)
    rows = np.arange(series)
    start = previous[:, count]
    level = (total[:, count] - total[rows, start]) / (count - start)
    while True:
        before = previous[rows, start]
        length = np.maximum(start - before, 1)
        same = (start > 0) & (np.abs((total[rows, start] - total[rows, before]) / length - level) < SAME_LEVEL)
        if not same.any():
            return start, best[:, count]
        start = np.where(same, before, start)


def optimal_partition(logs: Floats, penalty: Floats) -> tuple[Floats, Ints]:
    """Dynamic programme over the last change: best cost of each prefix, and where its last segment starts.

    Cost of a segment is its sum of squares about its mean; every change after the first segment costs `penalty`.
    """
    series, count = logs.shape
    total = np.concatenate([np.zeros((series, 1)), np.cumsum(logs, axis=1)], axis=1)
    squares = np.concatenate([np.zeros((series, 1)), np.cumsum(logs**2, axis=1)], axis=1)
    best = np.empty((series, count + 1))
    best[:, 0] = -penalty
    previous = np.zeros((series, count + 1), dtype=np.int64)
    for end in range(1, count + 1):
        lengths = np.arange(end, 0, -1)
        sums = total[:, end, None] - total[:, :end]
        costs = best[:, :end] + (squares[:, end, None] - squares[:, :end]) - sums**2 / lengths
        previous[:, end] = np.argmin(costs, axis=1)
        best[:, end] = np.min(costs, axis=1) + penalty
    return best, previous


def decay_end(logs: Floats, penalty: Floats) -> tuple[Ints, Floats]:
    """Least squares of level + amplitude * exp(-window / tau): where the rest of the decay is harmless, and the cost.

    Amplitude and tau cost two changes of the partition.
    """
    count = logs.shape[1]
    taus = np.geomspace(1.0, count / 2, 12)
    shapes = np.exp(-np.arange(count) / taus[:, None])
    centred = shapes - shapes.mean(axis=1, keepdims=True)
    norms = np.sum(centred**2, axis=1)
    deviations = logs - logs.mean(axis=1, keepdims=True)
    products = deviations @ centred.T
    gains = products**2 / norms
    best = np.argmax(gains, axis=1)
    rows = np.arange(len(logs))
    amplitude = np.abs(products[rows, best] / norms[best])
    tails = np.cumsum(shapes[:, ::-1], axis=1)[:, ::-1] / np.arange(count, 0, -1)
    harmless = amplitude[:, None] * tails[best] < HARMLESS_TAIL
    end = np.where(harmless.any(axis=1), np.argmax(harmless, axis=1), count - 1)
    cost = np.sum(deviations**2, axis=1) - gains[rows, best] + 2 * penalty
    return end.astype(np.int64), cost


def has_trend(logs: Floats, start: Ints, rho: Floats) -> Bools:
    """Whether the kept part still has a slope: least squares, its error widened for autocorrelation, 1 % two-sided.

    Slopes that move the level by less than `HARMLESS_TREND` do not count.
    """
    count = logs.shape[1]
    index = np.arange(count)
    kept = index >= start[:, None]
    number = kept.sum(axis=1)
    weight = np.where(kept, 1.0, 0.0)
    time = (index - ((weight * index).sum(axis=1) / number)[:, None]) * weight
    level = ((weight * logs).sum(axis=1) / number)[:, None]
    deviation = (logs - level) * weight
    spread = np.maximum((time**2).sum(axis=1), 1.0)
    slope = (time * deviation).sum(axis=1) / spread
    residual = deviation - slope[:, None] * time
    squares = (residual**2).sum(axis=1)
    lagged = (residual[:, 1:] * residual[:, :-1]).sum(axis=1) / np.maximum(squares, np.finfo(np.float64).tiny)
    corrected = np.clip(lagged + (1 + 4 * np.maximum(lagged, 0)) / number, 0, MOST_AUTOCORRELATION)
    rho = np.maximum(corrected, rho)
    inflation = (1 + rho) / (1 - rho)
    error = np.sqrt(squares / np.maximum(number - 2, 1) / spread * inflation)
    freedom = np.maximum(number / inflation - 2, 1.0)
    return (np.abs(slope) > _t_quantile_one_percent(freedom) * error) & (np.abs(slope) * number > HARMLESS_TREND)


def _t_quantile_one_percent(freedom: Floats) -> Floats:
    """Student's t at 99.5 %, by the Cornish-Fisher expansion (Abramowitz & Stegun 26.7.5); within 3 % from 3 degrees on."""
    z = 2.5758293035489004
    return np.asarray(
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
