"""The declared primary family: every arm at every place in each primary metric, with sequential verdicts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.judge.estimate import Estimate, estimate, half_width, p_value
from harness.judge.multiplicity import holm, shares
from harness.judge.observations import (
    across_sessions,
    bimodal,
    order_effect,
    rank_disagreement,
    several_batches,
    tail_effect,
)
from harness.judge.pairing import Contrast
from harness.judge.series import Series, batch_ratio, empty_comparison, numbers, series_of
from harness.judge.stopping import (
    Look,
    anytime_half_width,
    blocks_needed,
    look_at,
    minimal_detectable_effect,
    schedule,
    sequence_p,
)
from harness.judge.types import Comparison, Word
from harness.judge.verdict import ABOVE, BELOW, EQUIVALENT, UNDECIDED, decide, log_rope, word_for
from harness.metrics import METRICS
from harness.spec import Analysis, Experiment


@dataclass(frozen=True, eq=False)
class Measured:
    """A contrast that has blocks enough for an interval, at its present look."""

    series: Series
    estimate: Estimate
    look: Look
    going_on: Look
    """The same, had it not ended here."""
    weights: Mapping[int, float]

    def sequence_p(self, analysis: Analysis) -> float:
        """p-value on the scale of the whole sequence of looks; NaN where nothing may be decided now."""
        if analysis.open_ended or not self.look.decides:
            return math.nan
        return float(sequence_p(p_value(self.estimate), self.look.weight))

    def half_width(self, analysis: Analysis, alpha: float) -> float:
        """Half-width of the deciding interval for this comparison's share of alpha."""
        if analysis.open_ended:
            d = self.series.differences
            return float(anytime_half_width(np.std(d, ddof=1), len(d), alpha))
        return float(half_width(self.estimate, self.look.level(alpha)))

    def decided_before(self, alpha: float, rope: float) -> bool:
        """Whether an earlier look had decided, so that the blocks since then only add precision."""
        d, z = self.series.differences, self.series.order
        for blocks in sorted(look for look in self.weights if look < len(d)):
            early = estimate(d[:blocks], z[:blocks])
            half = float(half_width(early, Look(self.weights[blocks], True, False).level(alpha)))
            if int(decide(early.center - half, early.center + half, rope)) != UNDECIDED:
                return True
        return False


def primary_family(experiment: Experiment, found: Sequence[Contrast], last_look: bool) -> list[Comparison]:
    """The verdict of every contrast, in order; each hardware class is a family of its own."""
    by_hardware: dict[str, list[Contrast]] = defaultdict(list)
    for contrast in found:
        by_hardware[contrast.place.hardware_id].append(contrast)
    done: dict[int, Comparison] = {}
    for family in by_hardware.values():
        done |= _one_family(experiment, family, last_look)
    return [done[id(contrast)] for contrast in found]


def _one_family(experiment: Experiment, family: Sequence[Contrast], last_look: bool) -> dict[int, Comparison]:
    """Verdicts of all arms at all places on one hardware class, measured or not: what was declared is what is
    corrected for.
    """
    analysis = experiment.analysis
    weights = schedule(analysis.min_blocks, analysis.max_blocks)
    measured: dict[int, Measured] = {}
    for contrast in family:
        series = series_of(contrast, METRICS[contrast.metric])
        if contrast.obstacle is None and series is not None and series.blocks >= 2:
            look, going_on = (
                look_at(series.blocks, weights, last, _earlier_ends(contrast)) for last in (last_look, False)
            )
            of = estimate(series.differences, series.order)
            measured[id(contrast)] = Measured(series, of, look, going_on, weights)
    p = [each.sequence_p(analysis) for each in measured.values()]
    share, _ = shares(p, analysis.alpha, len(family))
    adjusted = holm(p, len(family))
    rows = {key: row for row, key in enumerate(measured)}
    found = {}
    for contrast in family:
        if id(contrast) in measured:
            row = rows[id(contrast)]
            alpha = analysis.alpha * float(share[row])
            found[id(contrast)] = _verdict(experiment, measured[id(contrast)], alpha, float(adjusted[row]), last_look)
        else:
            found[id(contrast)] = _without_numbers(experiment, contrast, min(weights), last_look)
    return found


def _earlier_ends(contrast: Contrast) -> list[int]:
    """Blocks there were when each session but the last ended."""
    counts = list(Counter(pair.session_id for pair in contrast.pairs).values())
    return [sum(counts[: index + 1]) for index in range(len(counts) - 1)]


def _verdict(
    experiment: Experiment, measured: Measured, alpha: float, adjusted_p: float, last_look: bool
) -> Comparison:
    """The comparison with its numbers and its word. `alpha` is its share of the family's."""
    analysis, series, of = experiment.analysis, measured.series, measured.estimate
    rope = log_rope(analysis.rope)
    decided_before = not measured.going_on.decides and measured.decided_before(alpha, rope)
    if decided_before:  # no alpha need be kept for going on: this look stands for the next one
        measured = replace(measured, look=measured.going_on)
    failure = series.contrast.failure
    look, center, half = measured.look, float(of.center), measured.half_width(analysis, alpha)
    fewest, most = min(measured.weights), max(measured.weights)
    enough = series.blocks >= fewest
    may_decide = enough and (look.decides or analysis.open_ended or decided_before)
    code = int(decide(center - half, center + half, rope)) if may_decide else UNDECIDED
    level = alpha if analysis.open_ended else look.level(alpha)
    exhausted = last_look or (series.blocks >= most and not analysis.open_ended)
    precise = analysis.precision == 0 or math.expm1(half) <= analysis.precision
    comparison = replace(
        numbers(experiment, series, of, half if enough else None, level),
        verdict=word_for(code, series.metric),
        final=exhausted or (code != UNDECIDED and precise),
        beyond_rope=code in (ABOVE, BELOW) and abs(center) - half > rope,
        adjusted_p=None if math.isnan(adjusted_p) else adjusted_p,
        minimal_detectable_effect=float(minimal_detectable_effect(of, level)) if enough else None,
        points=series.points(),
        notes=(*series.contrast.notes, *_notes(series, of, level)),
    )
    if code != UNDECIDED:
        reason = _decided_words(comparison, code, analysis.rope, series)
        if not precise:
            reason += f"; known to {math.expm1(half):.2%}, {analysis.precision:.2%} is asked for"
        return replace(comparison, reason=reason, notes=(*filter(None, [failure]), *comparison.notes))
    needed = blocks_needed(center, float(of.spread), rope, dict(measured.weights), alpha)
    reason = _open_words(comparison, look, needed, fewest, exhausted)
    return replace(comparison, blocks_needed=needed, reason="; ".join(filter(None, [failure, reason])))


def _notes(series: Series, of: Estimate, level: float) -> list[str]:
    """What a reader should know beside the verdict."""
    mean = series_of(series.contrast, METRICS["step_time_mean"]) if series.metric.per_step else None
    notes = [
        several_batches(batch_ratio(series.contrast.pairs[0])) if series.metric.per_step else None,
        tail_effect(of, estimate(mean.differences, mean.order)) if mean is not None and series.blocks >= 4 else None,
        rank_disagreement(series.differences, of, level),
        order_effect(of),
        bimodal(series.differences),
        *across_sessions(series.differences, [pair.session_id for pair in series.contrast.pairs], series.sign),
    ]
    return [note for note in notes if note is not None]


def _decided_words(comparison: Comparison, code: int, rope: float, series: Series) -> str:
    assert comparison.ci_low is not None
    assert comparison.ci_high is not None
    assert comparison.speedup is not None
    if code == EQUIVALENT:
        if comparison.ci_low > 1 or comparison.ci_high < 1:
            direction = word_for(ABOVE if math.log(comparison.speedup) * series.sign > 0 else BELOW, series.metric)
            return f"{direction}, by less than {rope:.3g}: too little to matter"
        return f"any difference is smaller than {rope:.3g}"
    if comparison.beyond_rope:
        return "the interval excludes 1 and lies beyond the region of practical equivalence"
    return "the interval excludes 1, but reaches into the region of practical equivalence"


def _open_words(comparison: Comparison, look: Look, needed: int | None, fewest: int, exhausted: bool) -> str:
    if comparison.blocks < fewest:
        have = f"{comparison.blocks} complete blocks; no verdict with fewer than {fewest}"
        return have if exhausted else f"{have}: goes on"
    found = (
        f"at {comparison.blocks} blocks only changes beyond {comparison.minimal_detectable_effect:.2%} would be found"
    )
    if not exhausted:
        return f"{found}; next look at {look.next_look} blocks" if look.next_look else f"{found}; goes on"
    return f"{found}; " + (f"about {needed} blocks would decide" if needed else "no reasonable number would decide")


def _without_numbers(experiment: Experiment, contrast: Contrast, fewest: int, last_look: bool) -> Comparison:
    """An arm that was not measured, or whose numbers are withheld, or that has one block only."""
    empty = empty_comparison(experiment, contrast, METRICS[contrast.metric])
    if contrast.obstacle is not None:
        stop = contrast.obstacle
        return replace(empty, verdict=stop.word, reason=stop.reason, final=stop.final or last_look)
    if series_of(contrast, METRICS[contrast.metric]) is None:
        reason = f"its trials do not all have a {contrast.metric} ({METRICS[contrast.metric].summary})"
        return replace(empty, verdict=Word.NOT_RUN, reason=reason, final=True)
    reason = f"{len(contrast.pairs)} complete block; no verdict with fewer than {fewest}"
    reason = "; ".join(filter(None, [contrast.failure, reason]))
    return replace(empty, verdict=Word.INCONCLUSIVE, reason=reason, final=last_look)
