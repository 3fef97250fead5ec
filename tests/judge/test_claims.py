"""Verdicts on claims, rule by rule, from comparisons made by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from harness.judge.claims import ClaimWord, change_interval, judge_claim, readings
from harness.judge.types import Comparison, Word
from harness.spec import Claim

HELD, EXCEEDED, MISSED = ClaimWord.HELD, ClaimWord.EXCEEDED, ClaimWord.MISSED
CONTRADICTED, INCONCLUSIVE = ClaimWord.CONTRADICTED, ClaimWord.INCONCLUSIVE


def comparison(metric: str = "throughput", **more: Any) -> Comparison:
    values: dict[str, Any] = {
        "workload": "w", "mode": "train", "preset": "tiny", "input": "loader", "axes": {}, "arm": "x", "baseline": "",
        "unit": "ns", "before": 1.0, "after": 1.0, "speedup": 1.0, "ci_low": None, "ci_high": None, "ci_level": 0.95,
        "raw_ci_low": None, "raw_ci_high": None, "blocks": 8, "verdict": Word.INCONCLUSIVE, "reason": "",
    }  # fmt: skip
    return Comparison(metric=metric, **{**values, **more})


def measured(low: float, high: float, metric: str = "throughput") -> Comparison:
    """A comparison whose interval of after / before - 1 is this one."""
    if metric == "throughput":
        return comparison(metric, speedup=1 + (low + high) / 2, ci_low=1 + low, ci_high=1 + high)
    return comparison(metric, speedup=2 / (2 + low + high), ci_low=1 / (1 + high), ci_high=1 / (1 + low))


def claim(**more: Any) -> Claim:
    values = {"metric": "throughput", "treatments": ("x",)} if "readings" not in more else {}
    return Claim(id="1-a", source="s", statement="t", **{**values, **more})


def word(given: Claim, *found: Comparison, device: str = "cpu", obstacle: str = "") -> ClaimWord:
    return judge_claim(given, found, rope=0.01, device=device, obstacle=obstacle).word


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.25, 0.28, HELD),
        (0.05, 0.201, HELD),  # reaches the range's edge
        (0.299, 0.90, HELD),
        (0.301, 0.90, EXCEEDED),
        (0.05, 0.199, MISSED),
        (-0.05, 0.10, MISSED),  # wholly short, whether or not there is an effect
        (-0.005, 0.005, MISSED),
        (-0.05, 0.25, INCONCLUSIVE),  # holds the range and no effect
        (-0.30, -0.05, CONTRADICTED),
    ],
)
def test_a_range(low: float, high: float, expected: ClaimWord) -> None:
    assert word(claim(change=(0.2, 0.3)), measured(low, high)) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.36, -0.33, HELD),
        (-0.50, -0.49, EXCEEDED),
        (-0.30, -0.10, MISSED),
        (0.02, 0.10, CONTRADICTED),
        (-0.40, 0.01, INCONCLUSIVE),
    ],
)
def test_a_single_number_stands_for_a_fifth_around_it_and_a_fall_is_read_as_a_fall(
    low: float, high: float, expected: ClaimWord
) -> None:
    given = claim(metric="step_time", change=-0.4)
    (reading,) = readings(given)
    assert (reading.low, reading.high) == pytest.approx((-0.48, -0.32))
    assert word(given, measured(low, high, "step_time")) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.6, 1.301, HELD),
        (0.6, 1.29, MISSED),
        (1.31, 1.5, EXCEEDED),
        (-0.2, -0.1, CONTRADICTED),
        (-0.1, 2.0, INCONCLUSIVE),
    ],
)
def test_at_most_holds_only_where_the_interval_reaches_the_number(low: float, high: float, expected: ClaimWord) -> None:
    assert word(claim(change=1.3, bound="at_most"), measured(low, high)) == expected


def test_a_range_without_an_upper_end() -> None:
    given = claim(change=(2.0, math.inf))
    assert word(given, measured(3.0, 9.0)) == HELD
    assert word(given, measured(0.5, 1.9)) == MISSED


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.02, 0.05, HELD),
        (0.005, 0.05, INCONCLUSIVE),  # reaches into the region of practical equivalence
        (-0.02, 0.05, INCONCLUSIVE),
        (0.001, 0.009, MISSED),  # known to be too small to matter
        (-0.05, -0.001, CONTRADICTED),
    ],
)
@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_a_direction(direction: str, low: float, high: float, expected: ClaimWord) -> None:
    metric = "throughput" if direction == "higher" else "step_time"
    ends = (low, high) if direction == "higher" else (-high, -low)
    assert word(claim(metric=metric, direction=direction), measured(*ends, metric)) == expected


def test_several_readings_hold_if_one_does() -> None:
    given = claim(readings=(("throughput", 0.3, 0.5), ("step_time", -0.5, -0.3)))
    assert word(given, measured(0.35, 0.36), measured(-0.2, -0.1, "step_time")) == HELD
    assert word(given, measured(0.1, 0.2), measured(-0.2, -0.1, "step_time")) == MISSED
    assert word(given, measured(-0.2, -0.1), measured(0.1, 0.2, "step_time")) == CONTRADICTED
    assert word(given, measured(-0.2, 0.4), measured(-0.2, -0.1, "step_time")) == INCONCLUSIVE


def test_the_interval_of_the_change_is_the_inverse_of_the_speedups_where_lower_is_better() -> None:
    halved = comparison("step_time", speedup=2.0, ci_low=1.6, ci_high=2.5)
    assert change_interval(halved) == pytest.approx((1 / 2.5 - 1, 1 / 1.6 - 1))
    doubled = replace(halved, metric="throughput")
    assert change_interval(doubled) == pytest.approx((0.6, 1.5))


def test_what_is_shown_beside_the_verdict() -> None:
    verdict = judge_claim(claim(change=(0.2, 0.3)), [measured(0.24, 0.28)], rope=0.01, device="cpu")
    assert (verdict.claimed, verdict.low, verdict.high) == ((0.2, 0.3), pytest.approx(0.24), pytest.approx(0.28))
    assert (verdict.change, verdict.level, verdict.blocks) == (pytest.approx(0.26), 0.95, 8)
    assert verdict.reason.endswith("excludes no effect")


def test_a_claim_about_gpus_gets_no_verdict_on_a_cpu_and_the_result_is_shown_beside_it() -> None:
    given = claim(change=(0.2, 0.3), scope="cuda")
    verdict = judge_claim(given, [measured(0.24, 0.28)], rope=0.01, device="cpu")
    assert verdict.word == ClaimWord.UNTESTABLE
    assert verdict.low == pytest.approx(0.24)
    assert "analogue" in verdict.reason
    assert word(given, measured(0.24, 0.28), device="cuda") == HELD


def test_an_obstacle_is_the_reason() -> None:
    verdict = judge_claim(claim(change=0.5), [], rope=0.01, device="cpu", obstacle="needs root")
    assert (verdict.word, verdict.reason) == (ClaimWord.UNTESTABLE, "needs root")
    gpu = judge_claim(claim(change=0.5, scope="cuda"), [], rope=0.01, device="cpu", obstacle="no treatment y yet")
    assert gpu.reason == "the claim is about GPUs; no treatment y yet"


def test_a_statement_about_the_baseline_gets_no_verdict() -> None:
    assert word(claim(value=0.65)) == ClaimWord.NO_VERDICT
    assert word(claim()) == ClaimWord.NO_VERDICT


def test_what_was_not_measured_is_no_verdict_in_anybodys_favour() -> None:
    given = claim(change=0.5)
    assert word(given) == ClaimWord.NOT_MEASURED
    skipped = comparison("step_time", verdict=Word.NOT_RUN, reason="needs root", ci_low=None, blocks=0)
    assert word(given, skipped) == ClaimWord.UNTESTABLE
    withheld = comparison("step_time", verdict=Word.INVALID, reason="the baseline differs from itself")
    assert word(given, withheld) == INCONCLUSIVE
    assert word(given, comparison("throughput", blocks=2)) == INCONCLUSIVE  # too few blocks for an interval
    assert word(given, measured(0.4, 0.6, "step_time")) == INCONCLUSIVE  # blocks, but no such metric


def test_values_without_a_ratio_are_told_as_they_are() -> None:
    counted = comparison("skipped_steps", speedup=None, before=6.0, after=0.0)
    verdict = judge_claim(claim(metric="skipped_steps", direction="lower"), [counted], rope=0.01, device="cpu")
    assert verdict.word == INCONCLUSIVE
    assert verdict.reason.startswith("6 before and 0 after")
