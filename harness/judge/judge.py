"""Judges one experiment: records and windows in, comparisons with verdicts out. Recomputed each time, never stored."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.judge.estimate import Estimate, Floats, estimate, half_width, p_value, signed_rank
from harness.judge.multiplicity import FALSE_DISCOVERY_RATE, benjamini_hochberg, holm, shares
from harness.judge.pairing import Contrast, Pair, contrasts
from harness.judge.stopping import (
    Look,
    anytime_half_width,
    blocks_needed,
    look_at,
    minimal_detectable_effect,
    schedule,
)
from harness.judge.types import BlockPoint, Comparison, Judgement, Word
from harness.judge.verdict import EQUIVALENT, UNDECIDED, decide, log_rope, word_for
from harness.metrics import METRICS, PRIMARY, Metric, WindowTable
from harness.record import TrialRecord
from harness.spec import Analysis, Experiment

RAW_ALPHA = 0.05


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
        return np.array([pair.order for pair in self.contrast.pairs], dtype=np.float64)


def judge(
    experiment: Experiment,
    spec_id: str,
    trials: Sequence[TrialRecord],
    windows: Mapping[str, WindowTable],
    *,
    last_look: bool = False,
) -> Judgement:
    """All verdicts of one experiment.

    `experiment` is as resolved by the plan: its workloads, arms and axes declare the primary family, whatever was
    measured. `trials` may hold other experiments' records too; only those with `spec_id` count. `windows[trial_id]` are
    the columns of `record.Window`. `last_look` says that no more blocks will come (the budget is spent, or a report is
    written): what can be decided is, and the rest is inconclusive for good.
    """
    own = [record for record in trials if record.spec_id == spec_id]
    found = contrasts(experiment, own, windows)
    primary = _primary_family(experiment, found, last_look)
    secondary = _secondary(experiment, found, primary)
    comparisons = []
    for comparison in primary:
        comparisons += [comparison, *secondary[id(comparison)]]
    return Judgement(
        experiment=experiment,
        spec_id=spec_id,
        comparisons=tuple(comparisons),
        sessions=tuple(dict.fromkeys(record.session_id for record in own if record.block_index is not None)),
        outcome_counts=dict(sorted(Counter(record.outcome.value for record in own).items())),
        dropped_blocks=max((contrast.dropped for contrast in found), default=0),
    )


# ------------------------------------------------------------------------------------------------ primary family


@dataclass(frozen=True, eq=False)
class Measured:
    """A contrast of the primary family that has blocks enough for an interval, at its present look."""

    series: Series
    estimate: Estimate
    look: Look
    unit_alpha: float
    """Level of this look over alpha, for a comparison that stands alone."""

    def half_width(self, analysis: Analysis, share: float) -> float:
        """Half-width of the deciding interval with this share of alpha."""
        if analysis.open_ended:
            d = self.series.differences
            return float(anytime_half_width(np.std(d, ddof=1), len(d), analysis.alpha * share))
        return float(half_width(self.estimate, self.look.alpha * share))


def _primary_family(experiment: Experiment, found: Sequence[Contrast], last_look: bool) -> list[Comparison]:
    by_hardware: dict[str, list[Contrast]] = defaultdict(list)
    for contrast in found:
        by_hardware[contrast.place.hardware_id].append(contrast)
    done: dict[int, Comparison] = {}
    for family in by_hardware.values():
        done |= _one_family(experiment, family, last_look)
    return [done[id(contrast)] for contrast in found]


def _one_family(experiment: Experiment, family: Sequence[Contrast], last_look: bool) -> dict[int, Comparison]:
    """Verdicts of the family declared for one hardware class: all arms at all places, measured or not."""
    analysis = experiment.analysis
    levels = schedule(analysis.alpha, analysis.min_blocks, analysis.max_blocks)
    measured: dict[int, Measured] = {}
    for contrast in family:
        series = series_of(contrast, METRICS[PRIMARY])
        if contrast.obstacle is None and series is not None and series.blocks >= 2:
            look = look_at(series.blocks, levels, analysis.alpha, last_look, _earlier_ends(contrast))
            measured[id(contrast)] = Measured(
                series, estimate(series.differences, series.order), look, look.alpha / analysis.alpha
            )
    stage = {key: _stage_p(each, analysis) for key, each in measured.items()}
    share, _ = shares(list(stage.values()), analysis.alpha, len(family))
    adjusted = holm(list(stage.values()), len(family))
    found = {}
    rows = {key: row for row, key in enumerate(measured)}
    for contrast in family:
        if id(contrast) in measured:
            row = rows[id(contrast)]
            found[id(contrast)] = _verdict(
                experiment, measured[id(contrast)], levels, float(share[row]), float(adjusted[row]), last_look
            )
        else:
            found[id(contrast)] = _without_verdict(experiment, contrast, levels, last_look)
    return found


def _earlier_ends(contrast: Contrast) -> list[int]:
    """Blocks there were when each session but the last ended."""
    counts = list(Counter(pair.session_id for pair in contrast.pairs).values())
    return [sum(counts[: index + 1]) for index in range(len(counts) - 1)]


def _stage_p(measured: Measured, analysis: Analysis) -> float:
    """p-value on the scale of the whole sequence of looks (times alpha over this look's level); NaN where none may decide."""
    if analysis.open_ended:
        return math.nan
    return float(p_value(measured.estimate)) / measured.unit_alpha if measured.look.decides else math.nan


def _verdict(
    experiment: Experiment, measured: Measured, levels: dict[int, float], share: float, adjusted_p: float, last_look: bool
) -> Comparison:
    analysis, series, look = experiment.analysis, measured.series, measured.look
    center = float(measured.estimate.center)
    half = measured.half_width(analysis, share)
    rope = log_rope(analysis.rope)
    enough = series.blocks >= min(levels)
    may_decide = enough and (look.decides or analysis.open_ended or _decided_before(measured, levels, share, rope))
    code = int(decide(center - half, center + half, rope)) if may_decide else UNDECIDED
    out_of_blocks = last_look or (series.blocks >= max(levels) and not analysis.open_ended)
    precise = analysis.precision == 0 or math.expm1(half) <= analysis.precision
    comparison = _numbers(experiment, series, measured.estimate, half if enough else None, look.alpha * share)
    comparison = replace(
        comparison,
        verdict=word_for(code, series.metric),
        final=out_of_blocks or (code != UNDECIDED and precise),
        beyond_rope=code not in (UNDECIDED, EQUIVALENT) and abs(center) - half > rope,
        adjusted_p=None if math.isnan(adjusted_p) else min(1.0, adjusted_p),
        points=tuple(_point(*row) for row in zip(series.contrast.pairs, series.before, series.after, series.baselines, strict=True)),
        minimal_detectable_effect=float(minimal_detectable_effect(measured.estimate, look.alpha * share)) if enough else None,
    )
    if code != UNDECIDED:
        return replace(comparison, reason=_decided_words(comparison, code, analysis.rope, series))
    needed = blocks_needed(center, float(measured.estimate.spread), rope, levels, share)
    return replace(comparison, blocks_needed=needed, reason=_open_words(comparison, look, needed, levels, out_of_blocks))


def _decided_before(measured: Measured, levels: dict[int, float], share: float, rope: float) -> bool:
    """Whether an earlier look had decided, so that blocks since then only add precision."""
    d, z = measured.series.differences, measured.series.order
    for look in sorted(level for level in levels if level < len(d)):
        early = estimate(d[:look], z[:look])
        half = float(half_width(early, levels[look] * share))
        if int(decide(early.center - half, early.center + half, rope)) != UNDECIDED:
            return True
    return False


def _decided_words(comparison: Comparison, code: int, rope: float, series: Series) -> str:
    assert comparison.ci_low is not None and comparison.ci_high is not None and comparison.speedup is not None
    if code == EQUIVALENT:
        if comparison.ci_low > 1 or comparison.ci_high < 1:
            direction = word_for(1 if (comparison.speedup < 1) == (series.metric.better == "lower") else -1, series.metric)
            return f"{direction}, by less than {rope:.3g}: too little to matter"
        return f"any difference is smaller than {rope:.3g}"
    if comparison.beyond_rope:
        return "the interval excludes 1 and lies beyond the region of practical equivalence"
    return "the interval excludes 1, but reaches into the region of practical equivalence"


def _open_words(
    comparison: Comparison, look: Look, needed: int | None, levels: dict[int, float], out_of_blocks: bool
) -> str:
    if comparison.blocks < min(levels):
        have = f"{comparison.blocks} complete blocks; no verdict with fewer than {min(levels)}"
        return have if out_of_blocks else f"{have}: goes on"
    found = f"at {comparison.blocks} blocks only changes beyond {comparison.minimal_detectable_effect:.2%} would be found"
    need = f"about {needed} blocks would decide" if needed is not None else "no reasonable number of blocks would decide"
    return f"{found}; {need}" if out_of_blocks else f"{found}; next look at {look.next_look} blocks"


def _without_verdict(
    experiment: Experiment, contrast: Contrast, levels: dict[int, float], last_look: bool
) -> Comparison:
    """An arm that was not measured, or whose numbers are withheld, or that has one block only."""
    if contrast.obstacle is not None:
        word, reason, final = contrast.obstacle.word, contrast.obstacle.reason, contrast.obstacle.final
    else:
        word, final = Word.INCONCLUSIVE, False
        reason = f"{len(contrast.pairs)} complete block; no verdict with fewer than {min(levels)}"
    empty = _empty(experiment, contrast, METRICS[PRIMARY])
    return replace(empty, verdict=word, reason=reason, final=final or last_look)


# ------------------------------------------------------------------------------------------------ secondary metrics


def _secondary(
    experiment: Experiment, found: Sequence[Contrast], primary: Sequence[Comparison]
) -> dict[int, list[Comparison]]:
    """The other metrics of every contrast that shows numbers: plain 95 % intervals, Benjamini-Hochberg over all of them."""
    rows: list[tuple[int, Series, Estimate | None]] = []
    for contrast, comparison in zip(found, primary, strict=True):
        if contrast.obstacle is None:
            for metric in METRICS.values():
                series = series_of(contrast, metric) if metric.id != PRIMARY else None
                if series is not None:
                    rows.append((id(comparison), series, _secondary_estimate(series)))
    p = [math.nan if of is None or not _tested(series) else float(p_value(of)) for _, series, of in rows]
    adjusted = benjamini_hochberg(p) if p else np.zeros(0)
    grouped: dict[int, list[Comparison]] = {id(comparison): [] for comparison in primary}
    for (key, series, of), q in zip(rows, adjusted, strict=True):
        grouped[key].append(_exploratory(experiment, series, of, float(q)))
    final = {id(comparison): comparison.final for comparison in primary}
    return {key: [replace(each, final=final[key]) for each in group] for key, group in grouped.items()}


def _secondary_estimate(series: Series) -> Estimate | None:
    return estimate(series.differences, series.order) if series.positive and series.blocks >= 2 else None


def _tested(series: Series) -> bool:
    return series.metric.better != "none" and series.blocks >= 4 and not _is_exact(series)


def _is_exact(series: Series) -> bool:
    """Whether a metric that has no noise of its own came out the same in all replicates."""
    before = {value for values in series.baselines for value in values}
    return series.metric.exact and series.blocks >= 2 and len(before) == 1 and len(set(series.after)) == 1


def _exploratory(experiment: Experiment, series: Series, of: Estimate | None, q: float) -> Comparison:
    if of is None or series.metric.better == "none":
        described = _numbers(experiment, series, None, None, RAW_ALPHA)
        return replace(described, primary=False, verdict=Word.DESCRIPTIVE, reason="described, not tested")
    half = float(half_width(of, RAW_ALPHA))
    comparison = replace(_numbers(experiment, series, of, half, RAW_ALPHA), primary=False)
    rope = log_rope(experiment.analysis.rope)
    code = int(decide(float(of.center) - half, float(of.center) + half, rope))
    if _is_exact(series):
        return replace(comparison, verdict=word_for(code, series.metric), reason="exact: all replicates agree")
    comparison = replace(comparison, adjusted_p=None if math.isnan(q) else q)
    if not _tested(series):
        return replace(comparison, verdict=Word.INCONCLUSIVE, reason=f"{series.blocks} complete blocks; too few")
    if code not in (UNDECIDED, EQUIVALENT) and q > FALSE_DISCOVERY_RATE:
        code = UNDECIDED
    return replace(comparison, verdict=word_for(code, series.metric), reason="exploratory: not in the declared family")


# ------------------------------------------------------------------------------------------------ numbers


def series_of(contrast: Contrast, metric: Metric) -> Series | None:
    """The metric in every block of the contrast; None where any block lacks it."""
    after, baselines = [], []
    for pair in contrast.pairs:
        value, others = pair.treated.value(metric.id, pair.start), pair.baselines.values(metric.id)
        if value is None or others is None:
            return None
        after.append(value)
        baselines.append(others)
    positive = all(value > 0 for value in after) and all(value > 0 for values in baselines for value in values)
    return Series(contrast, metric, tuple(after), tuple(baselines), positive) if after else None


def _empty(experiment: Experiment, contrast: Contrast, metric: Metric) -> Comparison:
    return Comparison(
        workload=contrast.place.workload,
        mode=experiment.mode,
        preset=experiment.preset,
        input=experiment.input,
        axes=dict(contrast.place.axes),
        arm=contrast.arm,
        baseline=experiment.baseline,
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


def _numbers(
    experiment: Experiment, series: Series, of: Estimate | None, half: float | None, alpha: float
) -> Comparison:
    """The comparison's numbers, the verdict still open. `half` is the deciding interval's half-width, on the log scale."""
    empty = replace(
        _empty(experiment, series.contrast, series.metric),
        before=_typical(series.before, series.positive),
        after=_typical(series.after, series.positive),
    )
    if of is None:
        return empty
    sign = 1.0 if series.metric.better == "higher" else -1.0
    center, raw = sign * float(of.center), float(half_width(of, RAW_ALPHA))
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
