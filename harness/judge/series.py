"""One metric of one contrast, block by block, and the numbers of a comparison that follow from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.judge.estimate import Estimate, Floats, half_width
from harness.judge.pairing import Contrast, Pair
from harness.judge.types import BlockPoint, Comparison, Word
from harness.metrics import Metric
from harness.spec import Experiment

RAW_ALPHA = 0.05
"""Of the unadjusted interval that is printed beside the one that decided."""


@dataclass(frozen=True, eq=False)
class Series:
    """One metric of one contrast, block by block: what the statistics work on."""

    contrast: Contrast
    metric: Metric
    after: tuple[float, ...]
    """One value a block, in the metric's unit."""
    baselines: tuple[tuple[float, ...], ...]
    positive: bool
    """Whether ratios make sense."""

    @property
    def blocks(self) -> int:
        return len(self.after)

    @property
    def sign(self) -> float:
        """What turns log(after / before) into the log of a speedup."""
        return 1.0 if self.metric.better == "higher" else -1.0

    @cached_property
    def before(self) -> tuple[float, ...]:
        """The baseline in each block: geometric mean over its replicates, arithmetic where a ratio makes no sense."""
        if self.positive:
            return tuple(math.exp(pair.baselines.mean_log(self.metric.id)) for pair in self.contrast.pairs)
        return tuple(math.fsum(values) / len(values) for values in self.baselines)

    @cached_property
    def differences(self) -> Floats:
        """log(after) - log(before) by block."""
        rows = zip(self.after, self.contrast.pairs, strict=True)
        return np.array([math.log(after) - pair.baselines.mean_log(self.metric.id) for after, pair in rows])

    @cached_property
    def order(self) -> Floats:
        """+1 where the treated arm ran after its baselines' mean position, -1 before."""
        return np.array([pair.order for pair in self.contrast.pairs], dtype=np.float64)

    def points(self) -> tuple[BlockPoint, ...]:
        """The blocks as the report shows them."""
        rows = zip(self.contrast.pairs, self.before, self.after, self.baselines, strict=True)
        return tuple(_point(*row) for row in rows)


def series_of(contrast: Contrast, metric: Metric) -> Series | None:
    """The metric in every block of the contrast; None where any block lacks it."""
    after, baselines = [], []
    for pair in contrast.pairs:
        value, others = treated_value(pair, metric), pair.baselines.values(metric.id)
        if value is None or others is None:
            return None
        after.append(value)
        baselines.append(others)
    positive = all(value > 0 for value in after) and all(value > 0 for values in baselines for value in values)
    return Series(contrast, metric, tuple(after), tuple(baselines), positive) if after else None


def treated_value(pair: Pair, metric: Metric) -> float | None:
    """The treated arm's metric; the time of a step is that of as many batches as a step of the baseline has."""
    value = pair.treated.value(metric.id, pair.start)
    return value if value is None or not metric.per_step else value / batch_ratio(pair)


def batch_ratio(pair: Pair) -> float:
    """Batches in a step, treated over baseline: each rank has one of its own."""
    return pair.treated.record.rank_count / pair.baselines.processes[0].record.rank_count


def empty_comparison(experiment: Experiment, contrast: Contrast, metric: Metric) -> Comparison:
    """The comparison with its place and names, and no numbers yet."""
    return Comparison(
        workload=contrast.place.workload,
        mode=experiment.mode,
        preset=experiment.preset,
        input=experiment.input,
        axes=dict(contrast.place.axes),
        arm=contrast.arm,
        baseline=contrast.baseline,
        metric=metric.id,
        unit=metric.unit,
        before=None,
        after=None,
        speedup=None,
        ci_low=None,
        ci_high=None,
        ci_level=None,
        raw_ci_low=None,
        raw_ci_high=None,
        blocks=len(contrast.pairs),
        verdict=Word.NOT_RUN,
        reason="",
        dropped_blocks=contrast.dropped,
        hardware_id=contrast.place.hardware_id,
        notes=contrast.notes,
    )


def numbers(
    experiment: Experiment, series: Series, of: Estimate | None, half: float | None, alpha: float
) -> Comparison:
    """The comparison's numbers, the verdict still open.

    `half` is the half-width of the interval at level 1 - alpha, on the log scale; None where there are too few blocks
    for one. Without an estimate only before and after are filled in.
    """
    empty = replace(
        empty_comparison(experiment, series.contrast, series.metric),
        before=_typical(series.before, series.positive),
        after=_typical(series.after, series.positive),
    )
    if of is None:
        return empty
    center, raw = series.sign * float(of.center), float(half_width(of, RAW_ALPHA))
    return replace(
        empty,
        speedup=math.exp(center),
        ci_low=None if half is None else math.exp(center - half),
        ci_high=None if half is None else _exp(center + half),
        ci_level=None if half is None else 1 - alpha,
        raw_ci_low=math.exp(center - raw),
        raw_ci_high=_exp(center + raw),
    )


def _exp(value: float) -> float:
    """exp that says infinite instead of raising, for an interval from two wild blocks."""
    return math.exp(value) if value < 700 else math.inf


def _typical(values: Sequence[float], positive: bool) -> float:
    """Geometric mean over blocks, so that before / after is the speedup; arithmetic where a ratio makes no sense."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if positive else math.fsum(values) / len(values)


def _point(pair: Pair, before: float, after: float, baselines: tuple[float, ...]) -> BlockPoint:
    ids = (pair.treated.record.trial_id, *(process.record.trial_id for process in pair.baselines.processes))
    return BlockPoint(
        block_index=pair.block_index,
        session_id=pair.session_id,
        before=before,
        after=after,
        order=pair.order,
        baselines=baselines,
        trial_ids=ids,
    )
