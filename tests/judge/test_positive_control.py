"""An effect of known size that was planted must lie inside the interval that finds it."""

from __future__ import annotations

import json

import pytest

from harness.judge import judge
from harness.judge.types import Judgement
from harness.record import TrialRecord
from tests.judge.runs import Run, jitter


def planted(percent: float, true_time: float, blocks: int = 6, **evidence: object) -> Judgement:
    """An arm that takes `true_time` times as long, and says that it planted so many percent."""
    run = Run(arms=("x",)).blocks(blocks, jitter({"x": true_time}))
    for record in run.records:
        if record.arm:
            record.evidence_json = json.dumps({"wait": {"planted_percent": percent}, **evidence})
    return run.judge()


def said(judgement: Judgement) -> list[tuple[str, str]]:
    return [(each.severity, each.text) for each in judgement.threats if "positive control" in each.text]


def test_what_was_planted_is_found_with_its_size():
    ((severity, text),) = said(planted(5.0, 1.05))
    assert severity == "note"
    assert "positive control passed: a slowdown of 5.00% was planted" in text


def test_a_size_outside_the_interval_is_a_failure_that_stands_first():
    ((severity, text),) = said(planted(5.0, 1.15))
    assert severity == "invalid"
    assert "the interval does not contain it" in text


def test_too_few_blocks_leave_it_open():
    ((severity, text),) = said(planted(0.2, 1.002, blocks=4))
    assert severity == "note"
    assert "positive control" in text
    assert "failed" not in text


@pytest.mark.parametrize("evidence", [{"other": {"bytes": 1}}, {"other": {"planted_percent": 1.0}}])
def test_an_arm_that_does_anything_else_as_well_is_no_control(evidence: dict[str, object]):
    assert said(planted(5.0, 1.05, **evidence)) == []


def test_every_session_is_listed_superseded_ones_with_no_trial_that_counts():
    run = (
        Run(arms=("x",))
        .blocks(4, jitter({"x": 0.9}), session="s1")
        .blocks(4, jitter({"x": 0.9}), session="s2", first=4)
    )
    old = [TrialRecord(trial_id="o1", session_id="s0", block_index=0, started_at="000000000", workload="w")]
    found = judge(run.experiment, "spec", run.records, run.windows, last_look=True, superseded=old)
    assert [(each.session_id, each.blocks, each.trials, each.counted) for each in found.history] == [
        ("s0", 1, 1, 0), ("s1", 4, 8, 8), ("s2", 4, 8, 8),
    ]  # fmt: skip
    assert found.sessions == ("s1", "s2")
