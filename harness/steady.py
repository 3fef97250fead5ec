"""Where a process became steady, found from its windows: the child asks whether to go on, the judge where to cut.

Pure numpy, nothing of ours. Everything works on a batch of series of equal length, shape (series, windows), so that the
judge cuts thousands of processes at once and the self-test simulates with the very code that decides; `find_steady` is
the batch of one.

The method is optimal partitioning of the log times (Killick, Fearnhead & Eckley 2012: L2 cost, one penalty a change),
beside an exponential decay fitted to the same series, because a decay's tail is too flat for a partition to see and too
tall to ignore. How autocorrelated the noise is decides how much a change must show, and cannot be told apart from the
changes by any single statistic: so both are fitted for a grid of AR(1) noises, and the description with the best
penalised likelihood wins (as in Chakar, Lebarbier, Levy-Leduc & Robin 2017, but over the grid). What is kept must then
show no slope.
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
AUTOCORRELATIONS = (0.0, 0.3, 0.6, 0.8, 0.9)
"""Of neighbouring windows; a grid, since no short series says more about it."""
CHANGE_PRICE = 4.5
"""Price of a change in the choice between descriptions, in units of ln(windows)."""
DECAY_CHANGES = 0.8
"""What a decay costs, in changes of level: a process that warms up smoothly is the likelier story."""
MOST_AUTOCORRELATION = 0.95
TREND_Z = 1.6448536269514722
"""Normal quantile of the trend test: 10 % two-sided, since a false alarm costs only a longer run."""
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

    `window_ns_per_step`: time per step of each window, in order, in any unit. `minimum`: fewer windows than this are
    never enough. `earliest`: the first window that may be kept (see `earliest_start`).
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


def earliest_start(compiles: Sequence[float | None] | Floats, reserved_bytes: Sequence[float | None] | Floats) -> int:
    """The first window after the last one that compiled something or in which the allocator's reserve changed.

    Both per window, NaN or None where unknown; either may be empty.
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
    scale = difference_scale(logs)
    logs = without_spikes(logs, scale)
    best = best_model(logs, scale)
    start = best.start if earliest is None else np.maximum(best.start, earliest)
    count = logs.shape[1]
    enough = (count - start) >= max(FEWEST_KEPT, KEPT_SHARE * count)
    return SteadyBatch(start, enough, ~has_trend(logs, start), best.rho)


def difference_scale(logs: Floats) -> Floats:
    """Noise of each series from the spread of its differences, over sqrt 2; shifts and slopes hardly touch it."""
    steps = np.diff(logs, axis=1)
    spread = MAD_TO_SD * np.median(np.abs(steps - np.median(steps, axis=1, keepdims=True)), axis=1)
    return np.asarray(np.maximum(spread, np.finfo(np.float64).eps * 8) / np.sqrt(2))


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


@dataclass(frozen=True)
class Model:
    """A description of each series: where its steady part starts, its noise, and how well it fits (less is better)."""

    start: Ints
    rho: Floats
    score: Floats

    def or_better(self, other: Model) -> Model:
        """The better of the two, series by series."""
        better = other.score < self.score
        start, rho = np.where(better, other.start, self.start), np.where(better, other.rho, self.rho)
        return Model(start, rho, np.where(better, other.score, self.score))


def best_model(logs: Floats, scale: Floats) -> Model:
    """Levels or a decay, with noise of each autocorrelation of the grid: the one with the smallest score."""
    best: Model | None = None
    for rho in AUTOCORRELATIONS:
        penalty = PENALTY * np.log(logs.shape[1]) * scale**2 * (1 + rho) / (1 - rho) ** 2
        for model in (levels_model(logs, penalty, rho), decay_model(logs, rho)):
            best = model if best is None else best.or_better(model)
    assert best is not None
    return best


def score(residuals: Floats, changes: Ints | float, rho: float) -> Floats:
    """Twice the negative log likelihood of AR(1) residuals, the scale at its best, plus a price for each change."""
    count = residuals.shape[1]
    steps = residuals[:, 1:] - rho * residuals[:, :-1]
    innovations = np.sum(steps**2, axis=1) + (1 - rho**2) * residuals[:, 0] ** 2
    floor = (np.finfo(np.float64).eps * 8) ** 2 * count
    likelihood = count * np.log(np.maximum(innovations, floor) / count) - np.log(1 - rho**2)
    return np.asarray(likelihood + CHANGE_PRICE * np.log(count) * np.asarray(changes))


def levels_model(logs: Floats, penalty: Floats, rho: float) -> Model:
    """Levels by optimal partition; the steady part is the last, with neighbours that are within `SAME_LEVEL` of it."""
    previous = optimal_partition(logs, penalty)
    series, count = logs.shape
    index, rows = np.arange(count), np.arange(series)
    total = np.concatenate([np.zeros((series, 1)), np.cumsum(logs, axis=1)], axis=1)
    end, residuals = np.full(series, count), logs.copy()
    start, joined = np.full(series, count), np.ones(series, dtype=bool)
    last_level, changes = np.zeros(series), np.full(series, -1)
    while (end > 0).any():
        begin = np.where(end > 0, previous[rows, end], 0)
        level = (total[rows, end] - total[rows, begin]) / np.maximum(end - begin, 1)
        residuals -= np.where((index >= begin[:, None]) & (index < end[:, None]), level[:, None], 0.0)
        last_level = np.where(end == count, level, last_level)
        joined &= (end > 0) & (np.abs(level - last_level) < SAME_LEVEL)
        start = np.where(joined, begin, start)
        changes += end > 0
        end = begin
    return Model(start, np.full(series, rho), score(residuals, changes, rho))


def decay_model(logs: Floats, rho: float) -> Model:
    """Least squares of level + amplitude * exp(-window / tau), whitened by rho; steady where the rest is harmless.

    With a long tau this is a slope that never ends.
    """
    count = logs.shape[1]
    shapes = np.exp(-np.arange(count) / np.geomspace(1.0, 2.0 * count, 14)[:, None])
    white = shapes[:, 1:] - rho * shapes[:, :-1]
    centred = white - white.mean(axis=1, keepdims=True)
    steps = logs[:, 1:] - rho * logs[:, :-1]
    products = (steps - steps.mean(axis=1, keepdims=True)) @ centred.T
    norms = np.sum(centred**2, axis=1)
    best, rows = np.argmax(products**2 / norms, axis=1), np.arange(len(logs))
    amplitude = products[rows, best] / norms[best]
    tails = np.cumsum(shapes[:, ::-1], axis=1)[:, ::-1] / np.arange(count, 0, -1)
    harmless = np.abs(amplitude)[:, None] * tails[best] < HARMLESS_TAIL
    end = np.where(harmless.any(axis=1), np.argmax(harmless, axis=1), count - 1)
    residuals = logs - amplitude[:, None] * shapes[best]
    residuals = residuals - residuals.mean(axis=1, keepdims=True)
    return Model(end, np.full(len(logs), rho), score(residuals, DECAY_CHANGES, rho))


def optimal_partition(logs: Floats, penalty: Floats) -> Ints:
    """Dynamic programme over the last change: where the last segment of each prefix starts, (series, windows + 1).

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
    return previous


def has_trend(logs: Floats, start: Ints) -> Bools:
    """Whether the kept part still has a slope: least squares, its error widened for autocorrelation.

    The residuals' own autocorrelation counts, corrected for what fitting took out of it.

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
    inflation = (1 + corrected) / (1 - corrected)
    error = np.sqrt(squares / np.maximum(number - 2, 1) / spread * inflation)
    freedom = np.maximum(number / inflation - 2, 1.0)
    found = (np.abs(slope) > _t_quantile(freedom) * error) & (np.abs(slope) * number > HARMLESS_TREND)
    return np.asarray(found)


def _t_quantile(freedom: Floats) -> Floats:
    """Student's t quantile for `TREND_Z`, by the expansion of Abramowitz & Stegun 26.7.5 (no scipy in the child)."""
    z = TREND_Z
    return np.asarray(
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
