"""Whether an arm computes what the plain model computes: the guard in front of every speed verdict.

The reference is the same model in double precision. Two runs of the plain arm on one machine can be bit-identical, so
the tolerance comes from the distances to the reference of the plain arm and of its echoes, which start one rounding
away, scaled by the precision the arm works in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.record import TrialRecord
from harness.spec import Kind, Numerics

TOLERANCE = 4.0
"""Errors up to so many times the plain arm's are rounding."""
HEAD_START = 2
"""Training is chaotic: rounding errors grow a hundredfold within steps, and an arm may come to that so many earlier."""
ROUNDING = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "tensorfloat32": 2.0**-11,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
"""Unit roundoff of the formats (Higham, Accuracy and Stability of Numerical Algorithms, table 2.1)."""
WEAKEST: Mapping[Numerics, int] = {"identical": 0, "close": 1, "changes": 2}


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What a numerics trial says of its arm."""

    wrong: str
    """Why the speed verdict is withheld, in a sentence; empty where it is not."""
    words: str
    """What was found, for the report."""
    error: float | None = None
    """Largest relative error against double precision within the steps that were compared."""
    allowed: float | None = None
    """Tolerance at that step."""


def weakest(classes: Sequence[Numerics]) -> Numerics:
    """The class of an arm: that of its treatment which promises least. The empty arm is identical."""
    return max(classes, key=WEAKEST.__getitem__, default="identical")


def check(promise: Numerics, own: Mapping[str, Any], plain: Mapping[str, Any], device: str) -> Guard:
    """Compare what an arm computed with the plain arm and its reference.

    `own` and `plain` are what numerics trials store: `values` per step, the `dtypes` of products and convolutions, the
    output's `shape`; the plain arm's holds the `reference`, alike, and the values of its `echoes`.
    """
    values, reference = own["values"], plain["reference"]["values"]
    if not all(math.isfinite(value) for step in values for value in step):
        return Guard(wrong="it computes values that are not finite", words="not finite")
    if own["shape"] != plain["shape"]:
        words = f"its output has the shape {own['shape']}, the plain model's {plain['shape']}"
        return Guard(wrong="" if promise == "changes" else words, words=words)
    errors = relative_errors(values, reference)
    if promise == "changes":
        return Guard(wrong="", words=f"changed on purpose, by up to {max(errors):.1e}", error=max(errors))
    if promise == "identical" and device == "cpu":
        same = values == plain["values"]
        words = "bit-identical to the plain model" if same else "not bit-identical to the plain model, as it must be"
        return Guard(wrong="" if same else words, words=words)
    return _within(errors, tolerances(own["dtypes"], plain, reference))


def check_records(own: TrialRecord, plain: TrialRecord) -> Guard:
    """The guard of two stored numerics trials."""
    assert own.numerics_json is not None
    assert plain.numerics_json is not None
    promise: Any = own.declared_numerics
    return check(promise, json.loads(own.numerics_json), json.loads(plain.numerics_json), own.device)


def notes(records: Sequence[TrialRecord]) -> dict[tuple[str, str], str]:
    """What the numerics trials say, in words, by (workload, arm); arms that were not tried are missing."""
    trials = [record for record in records if record.kind == Kind.NUMERICS]
    plain = {record.workload: record for record in trials if record.arm == "" and record.numerics_json}
    found = {}
    for record in trials:
        if record.arm:
            found[record.workload, record.arm] = _words(record, plain.get(record.workload))
    return found


def _words(record: TrialRecord, plain: TrialRecord | None) -> str:
    if record.numerics_json is None or plain is None:
        missing = record if record.numerics_json is None else "the plain model has no numerics trial"
        reason = missing if isinstance(missing, str) else f"{missing.outcome.value.replace('_', ' ')}: {missing.reason}"
        return f"numerics not checked: {reason}"
    return f"numerics ({record.declared_numerics}): {check_records(record, plain).words}"


def _within(errors: Sequence[float], allowed: Sequence[float]) -> Guard:
    step = max(range(len(errors)), key=lambda index: errors[index] / allowed[index])
    error, limit = errors[step], allowed[step]
    words = f"differs from double precision by {error:.3g} at step {step + 1}, {limit:.3g} is allowed"
    return Guard(wrong=words if error > limit else "", words=words, error=error, allowed=limit)


def relative_errors(values: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> list[float]:
    """Per step: the length of the difference over the length of the reference."""
    return [
        math.dist(own, true) / max(math.hypot(*true), math.ulp(0.0))
        for own, true in zip(values, reference, strict=True)
    ]


def tolerances(dtypes: Sequence[str], plain: Mapping[str, Any], reference: Sequence[Sequence[float]]) -> list[float]:
    """Per step: the largest error of plain runs until then, at least their rounding, scaled by the arm's precision."""
    ground = _coarsest(plain["dtypes"])
    scale = max(1.0, _coarsest(dtypes) / ground)
    runs = (plain["values"], *plain["echoes"])
    errors = [max(each) for each in zip(*(relative_errors(run, reference) for run in runs), strict=True)]
    return [TOLERANCE * scale * max(ground, *errors[: step + 1 + HEAD_START]) for step in range(len(errors))]


def _coarsest(dtypes: Sequence[str]) -> float:
    return max((ROUNDING[dtype] for dtype in dtypes), default=ROUNDING["float32"])
