"""The numerics guard, by arithmetic done by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from harness.judge import numerics
from harness.record import Outcome
from harness.spec import Numerics
from tests.judge.runs import Run, jitter

ROUNDING = 2.0**-24


def followed(*values: float, dtypes: tuple[str, ...] = ("float32",), shape: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"values": [[value] for value in values], "dtypes": list(dtypes), "shape": list(shape)}


def plain(*values: float, reference: tuple[float, ...], echoes: tuple[tuple[float, ...], ...] = ()) -> dict[str, Any]:
    around = [[[value] for value in echo] for echo in echoes]
    return {**followed(*values), "reference": followed(*reference, dtypes=("float64",)), "echoes": around}


EXACT = plain(2.0, 2.0, 2.0, 2.0, 2.0, 2.0, reference=(2.0,) * 6)
"""A plain arm that happens to hit the reference: only rounding itself is allowed."""


def test_the_error_is_relative_to_the_length_of_the_reference() -> None:
    assert numerics.relative_errors([[3.0, 4.0]], [[0.0, 4.0]]) == [0.75]
    assert numerics.relative_errors([[0.0]], [[0.0]]) == [0.0]


def test_four_roundings_are_allowed_and_five_are_not() -> None:
    for roundings, wrong in ((4, False), (5, True)):
        guard = numerics.check("close", followed(2 + 2 * roundings * ROUNDING, *[2.0] * 5), EXACT, "cpu")
        assert bool(guard.wrong) is wrong
        assert guard.error == pytest.approx(roundings * ROUNDING)
        assert guard.allowed == pytest.approx(4 * ROUNDING)


def test_the_tolerance_follows_the_plain_arms_own_error_two_steps_ahead() -> None:
    base = plain(1.0, 1.0, 1.0, 1.001, reference=(1.0,) * 4)
    allowed = numerics.tolerances(["float32"], base, base["reference"]["values"])
    assert allowed == pytest.approx([4 * ROUNDING, 4e-3, 4e-3, 4e-3])


def test_an_echo_that_training_takes_further_away_widens_the_tolerance() -> None:
    base = plain(*[1.0] * 4, reference=(1.0,) * 4, echoes=((1.0, 1.0, 1.0, 1.002), (1.0, 1.0, 1.0, 0.999)))
    allowed = numerics.tolerances(["float32"], base, base["reference"]["values"])
    assert allowed == pytest.approx([4 * ROUNDING, 8e-3, 8e-3, 8e-3])


@pytest.mark.parametrize(
    ("dtype", "scale"), [("bfloat16", 2**16), ("float16", 2**13), ("tensorfloat32", 2**13), ("float64", 1)]
)
def test_a_coarser_format_is_allowed_its_own_rounding(dtype: str, scale: int) -> None:
    allowed = numerics.tolerances(["float32", dtype], EXACT, EXACT["reference"]["values"])
    assert allowed[0] == pytest.approx(4 * ROUNDING * scale)


@pytest.mark.parametrize("promise", ["identical", "close", "changes"])
def test_a_loss_that_is_not_finite_is_wrong_whatever_was_promised(promise: Numerics) -> None:
    assert numerics.check(promise, followed(2.0, math.nan, *[2.0] * 4), EXACT, "cpu").wrong


def test_identical_means_every_bit_on_a_cpu_and_rounding_on_a_gpu() -> None:
    off = followed(2 + 2 * ROUNDING, *[2.0] * 5)
    assert numerics.check("identical", off, EXACT, "cpu").wrong
    assert not numerics.check("identical", off, EXACT, "Some GPU").wrong
    assert not numerics.check("identical", followed(*[2.0] * 6), EXACT, "cpu").wrong


def test_what_changes_on_purpose_is_measured_and_not_refused() -> None:
    guard = numerics.check("changes", followed(3.0, *[2.0] * 5), EXACT, "cpu")
    assert (guard.wrong, guard.error) == ("", 0.5)


def test_an_output_of_another_shape_is_wrong_unless_declared() -> None:
    other = followed(*[2.0] * 6, shape=(4, 8))
    assert "shape" in numerics.check("close", other, EXACT, "cpu").wrong
    assert not numerics.check("changes", other, EXACT, "cpu").wrong


def test_an_arm_promises_what_its_weakest_treatment_does() -> None:
    assert numerics.weakest(["identical", "changes", "close"]) == "changes"
    assert numerics.weakest([]) == "identical"


def test_comparisons_say_what_was_found() -> None:
    run = Run(arms=("x", "y", "z")).blocks(6, jitter({"x": 0.9, "y": 0.9, "z": 0.9}))
    kept = {"kind": "numerics", "declared_numerics": "close"}
    run.trial("", None, None, **kept, numerics_json=json.dumps(EXACT))
    run.trial("x", None, None, **kept, numerics_json=json.dumps(followed(*[2.0] * 6)))
    run.trial("y", None, None, **kept, outcome=Outcome.CRASHED, reason="boom")
    said = "numerics (close): differs from double precision by 0 at step 1, "
    assert any(said in note for note in run.verdict("x").notes)
    assert any("numerics not checked: crashed: boom" in note for note in run.verdict("y").notes)
    assert not any("numerics" in note for note in run.verdict("z").notes)
