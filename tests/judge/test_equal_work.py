"""Arms that did different work are not compared, unless a treatment says that it changes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.judge.equal_work import WORK, undeclared_differences
from harness.judge.types import Word
from harness.record import TrialRecord
from tests.judge.runs import Run, jitter


def record(**columns: Any) -> TrialRecord:
    return TrialRecord(items_per_step=4.0, facts_json=json.dumps({"torch.version": "2", "threads.intra": 2}), **columns)


def test_equal_work_has_no_difference() -> None:
    assert undeclared_differences(record(), record()) == []


@pytest.mark.parametrize("name", WORK)
def test_every_column_of_the_work_is_compared_and_can_be_declared(name: str) -> None:
    other = record()
    setattr(other, name, 7)
    (words,) = undeclared_differences(other, record())
    assert words.startswith(f"{name}: ")
    other.declared_changes_json = json.dumps([name])
    assert undeclared_differences(other, record()) == []


def test_runtime_facts_are_compared_and_a_declaration_covers_those_below_it() -> None:
    other = record()
    other.facts_json = json.dumps({"torch.version": "3", "threads.intra": 2, "only.here": 1})
    assert undeclared_differences(other, record()) == ["torch.version: 2 before, 3 after"]
    other.declared_changes_json = json.dumps(["torch"])
    assert undeclared_differences(other, record()) == []
    other.declared_changes_json = json.dumps(["tor"])
    assert undeclared_differences(other, record()) != []


def test_what_a_run_left_behind_is_not_compared() -> None:
    """A command's output may hold the time of day, and a faster one is run more often in as many windows."""
    other, plain = record(), record()
    plain.facts_json = json.dumps({"command": ["a"], "kept.output": "9:00", "kept.runs": 15})
    other.facts_json = json.dumps({"command": ["a"], "kept.output": "9:01", "kept.runs": 30})
    assert undeclared_differences(other, plain) == []
    other.facts_json = json.dumps({"command": ["b"], "kept.output": "9:01", "kept.runs": 30})
    assert undeclared_differences(other, plain) == ["command: ['a'] before, ['b'] after"]


def test_a_comparison_of_unequal_work_is_invalid_and_names_the_field() -> None:
    run = Run().blocks(6, jitter({"x": 0.5}))
    for trial in run.records:
        trial.items_per_step = 8.0 if trial.arm == "x" else 4.0
    verdict = run.verdict("x")
    assert verdict.verdict is Word.INVALID
    assert "items_per_step: 4.0 before, 8.0 after" in verdict.reason
