"""Judges one experiment: records and windows in, comparisons with verdicts out. Recomputed each time, never stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.judge import numerics
from harness.judge.control import NegativeControl, negative_control
from harness.judge.designs import FACTORIAL
from harness.judge.factors import factor_rows
from harness.judge.pairing import Contrast, Place, contrasts
from harness.judge.primary import primary_family
from harness.judge.secondary import secondary_metrics
from harness.judge.types import Comparison, Judgement, Threat, Word
from harness.judge.variance import as_rows
from harness.judge.verdict import log_rope
from harness.metrics import WindowTable
from harness.record import FAILURES, Outcome, TrialRecord
from harness.spec import Experiment


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
    primary = primary_family(experiment, found, last_look)
    if experiment.design in FACTORIAL:
        primary = _stop_together(found, primary)
    controls = _negative_controls(experiment, found, primary)
    primary = [_controlled(contrast, each, controls) for contrast, each in zip(found, primary, strict=True)]
    primary = _with_numerics(experiment, own, primary)
    secondary = secondary_metrics(experiment, found, primary)
    factors, factor_threats = factor_rows(experiment, found)
    sessions = tuple(dict.fromkeys(record.session_id for record in own if record.block_index is not None))
    return Judgement(
        experiment=experiment,
        spec_id=spec_id,
        comparisons=tuple(each for one, others in zip(primary, secondary, strict=True) for each in (one, *others)),
        threats=(*_threats(own, found, sessions), *_control_threats(found, controls), *factor_threats),
        sessions=sessions,
        outcome_counts=dict(sorted(Counter(record.outcome.value for record in own).items())),
        dropped_blocks=sum({contrast.place: contrast.dropped for contrast in found}.values()),
        variance=tuple(as_rows(found)),
        factors=tuple(factors),
    )


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


# ------------------------------------------------------------------------------------------------ threats


def _threats(records: Sequence[TrialRecord], found: Sequence[Contrast], sessions: Sequence[str]) -> list[Threat]:
    """What the records themselves say against the result."""
    threats = []
    if len(sessions) == 1:
        threats.append(Threat(severity="note", text="one session on one machine: another day may differ"))
    for outcome in sorted(FAILURES | {Outcome.DISTURBED}):
        count = sum(record.outcome == outcome for record in records if not record.is_skip)
        if count:
            trials = "trial" if count == 1 else "trials"
            threats.append(Threat(severity="warning", text=f"{count} {trials} ended {outcome.value.replace('_', ' ')}"))
    for note in dict.fromkeys(note for contrast in found for note in contrast.notes):
        threats.append(Threat(severity="warning", text=note))
    simulated = sum(record.is_simulated for record in records)
    if simulated:
        threats.append(Threat(severity="warning", text=f"{simulated} trials are simulated: no machine was measured"))
    return threats


def _control_threats(found: Sequence[Contrast], controls: Mapping[Place, NegativeControl]) -> list[Threat]:
    """What the negative controls say, place by place."""
    threats = []
    for place in dict.fromkeys(contrast.place for contrast in found if contrast.pairs):
        where = ", ".join([place.workload, *(f"{name}={value}" for name, value in place.axes)])
        control = controls.get(place)
        if control is None:
            text = f"{where}: no negative control (fewer than 4 blocks with the baseline run twice, or not finished)"
            threats.append(Threat(severity="note", text=text))
        elif control.failed:
            text = f"{where}: the baseline differs from itself by {control.difference:+.2%} (p = {control.p:.1g})"
            threats.append(Threat(severity="invalid", text=text))
    return threats
