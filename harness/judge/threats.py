"""What the records themselves say against a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.judge.control import NegativeControl
from harness.judge.pairing import Contrast, Place
from harness.judge.types import Threat
from harness.record import FAILURES, Outcome, TrialRecord


def record_threats(records: Sequence[TrialRecord], found: Sequence[Contrast], sessions: Sequence[str]) -> list[Threat]:
    """Failures, disturbances, what had to be left out, and trials that no machine made."""
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


def control_threats(found: Sequence[Contrast], controls: Mapping[Place, NegativeControl]) -> list[Threat]:
    """What the negative controls say, place by place."""
    threats = []
    for place in dict.fromkeys(contrast.place for contrast in found if contrast.pairs):
        control = controls.get(place)
        if control is None:
            text = f"{place}: no negative control (fewer than 4 blocks with the baseline run twice, or not finished)"
            threats.append(Threat(severity="note", text=text))
        elif control.failed:
            text = f"{place}: the baseline differs from itself by {control.difference:+.2%} (p = {control.p:.1g})"
            threats.append(Threat(severity="invalid", text=text))
    return threats
