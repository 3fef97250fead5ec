"""Judges one experiment: records and windows in, comparisons with verdicts out. Recomputed each time, never stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.judge import numerics
from harness.judge.calibration import calibrations, cited, warnings_of
from harness.judge.control import NegativeControl, negative_control, positive_control
from harness.judge.designs import FACTORIAL
from harness.judge.factors import factor_rows
from harness.judge.family import primary_metrics
from harness.judge.history import history
from harness.judge.pairing import Contrast, Place, contrasts
from harness.judge.primary import primary_family
from harness.judge.secondary import secondary_metrics
from harness.judge.threats import control_threats, record_threats
from harness.judge.types import Calibration, Comparison, Judgement, Threat, Word
from harness.judge.variance import as_rows
from harness.judge.verdict import log_rope
from harness.metrics import WindowTable
from harness.record import Outcome, TrialRecord
from harness.spec import Experiment


def judge(
    experiment: Experiment,
    spec_id: str,
    trials: Sequence[TrialRecord],
    windows: Mapping[str, WindowTable],
    *,
    last_look: bool = False,
    superseded: Sequence[TrialRecord] = (),
    stored: Sequence[Calibration] | None = None,
) -> Judgement:
    """All verdicts of one experiment.

    `experiment` is as resolved by the plan: its workloads, arms and axes declare the primary family, whatever was
    measured. `trials` may hold other experiments' records too; only those with `spec_id` count. `windows[trial_id]` are
    the columns of `record.Window`. `last_look` says that no more blocks will come (the budget is spent, or a report is
    written): what can be decided is, and the rest is inconclusive for good. `superseded` are trials of the same
    spec that later code or another environment replaced: their sessions are listed and nothing else. `stored` are the
    calibrations at hand, to be cited; None where nobody looked for any.
    """
    own = [record for record in trials if record.spec_id == spec_id]
    found = contrasts(experiment, own, windows)
    primary = primary_family(experiment, found, last_look)
    leading = [each for each in found if each.metric == primary_metrics(experiment)[0]]
    sessions = tuple(dict.fromkeys(record.session_id for record in own if record.block_index is not None))
    threats = record_threats(own, found, sessions)
    judgement = Judgement(
        experiment=experiment,
        spec_id=spec_id,
        comparisons=(),
        sessions=sessions,
        history=history(own, superseded),
        outcome_counts=dict(sorted(Counter(record.outcome.value for record in own).items())),
        dropped_blocks=sum({contrast.place: contrast.dropped for contrast in found}.values()),
        variance=tuple(as_rows(leading)),
    )
    if experiment.is_aa:
        primary = _measured_to_the_end(experiment, primary)
        made = calibrations(experiment, found, primary)
        threats += warnings_of(made)
        return replace(judgement, comparisons=tuple(primary), calibrations=made, threats=tuple(threats))
    if experiment.design in FACTORIAL:
        primary = _stop_together(found, primary)
    controls = _negative_controls(experiment, found, primary)
    primary = [_controlled(contrast, each, controls) for contrast, each in zip(found, primary, strict=True)]
    primary, planted = _with_positive_controls(experiment, found, primary)
    primary = _with_numerics(experiment, own, primary)
    secondary = secondary_metrics(experiment, found, primary)
    factors, factor_threats = factor_rows(experiment, leading)
    chosen, citations = ((), []) if stored is None else cited(own, stored)
    return replace(
        judgement,
        comparisons=tuple(each for one, others in zip(primary, secondary, strict=True) for each in (one, *others)),
        threats=(*threats, *control_threats(found, controls), *planted, *factor_threats, *citations),
        calibrations=chosen,
        factors=tuple(factors),
    )


def _measured_to_the_end(experiment: Experiment, primary: Sequence[Comparison]) -> list[Comparison]:
    """Identical runs are measured in all blocks that were announced: what stops early says less about the noise."""
    most = experiment.analysis.max_blocks
    return [
        replace(each, final=each.final and (each.blocks >= most or each.verdict in (Word.INVALID, Word.NOT_RUN)))
        for each in primary
    ]


def _stop_together(found: Sequence[Contrast], primary: Sequence[Comparison]) -> list[Comparison]:
    """Arms of a factorial design go on until all of a place are decided: each says something about every factor."""
    waiting = {contrast.place for contrast, each in zip(found, primary, strict=True) if not each.final}
    return [
        replace(each, final=each.final and contrast.place not in waiting)
        for contrast, each in zip(found, primary, strict=True)
    ]


def _negative_controls(
    experiment: Experiment, found: Sequence[Contrast], primary: Sequence[Comparison]
) -> dict[Place, NegativeControl]:
    """The negative control of every place that is finished: it is tested once, at the end."""
    waiting = {contrast.place for contrast, each in zip(found, primary, strict=True) if not each.final}
    controls = {}
    for place in {contrast.place for contrast in found} - waiting:
        pairs = [pair for contrast in found if contrast.place == place for pair in contrast.pairs]
        control = negative_control(pairs, log_rope(experiment.analysis.rope))
        if control is not None:
            controls[place] = control
    return controls


def _controlled(contrast: Contrast, comparison: Comparison, controls: Mapping[Place, NegativeControl]) -> Comparison:
    """The comparison, invalid where its place failed the negative control."""
    control = controls.get(contrast.place)
    if control is None or not control.failed or comparison.verdict in (Word.NOT_RUN, Word.INVALID):
        return comparison
    return replace(
        comparison,
        verdict=Word.INVALID,
        beyond_rope=False,
        reason="negative control failed: the baseline differs from itself "
        f"by {control.difference:+.2%} (p = {control.p:.1g})",
    )


def _with_positive_controls(
    experiment: Experiment, found: Sequence[Contrast], primary: Sequence[Comparison]
) -> tuple[list[Comparison], list[Threat]]:
    """The comparisons, each with a note on what was planted in it, and the same where all that is read first stands.

    What is planted is a share of the typical step: a rare slow request is lengthened by less than that.
    """
    noted, threats = [], []
    leading, *_ = primary_metrics(experiment)
    for contrast, each in zip(found, primary, strict=True):
        control = positive_control(contrast.pairs, each) if contrast.metric == leading else None
        noted.append(replace(each, notes=(*each.notes, control.words)) if control else each)
        if control:
            text = f"{contrast.place}: {contrast.arm}: {control.words}"
            threats.append(Threat(severity="invalid" if control.failed else "note", text=text))
    return noted, threats


def _with_numerics(
    experiment: Experiment, records: Sequence[TrialRecord], comparisons: Sequence[Comparison]
) -> list[Comparison]:
    """Each comparison with a note on what its arm's numerics trial found, where that is not its reason already."""
    found = numerics.notes(records)
    withheld = {(r.workload, r.arm) for r in records if r.outcome is Outcome.WRONG_NUMERICS}
    if not experiment.numerics:
        found = {(each.workload, each.arm): "numerics not checked: switched off" for each in comparisons}
    noted = {key: (note,) for key, note in found.items() if key not in withheld}
    return [replace(each, notes=each.notes + noted.get((each.workload, each.arm), ())) for each in comparisons]
