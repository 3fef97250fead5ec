"""An arm under another Python environment: started there, told from this one, and what differs is declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.judge.equal_work import undeclared_differences
from harness.record import Outcome, TrialRecord
from harness.spec import NoEffect
from harness.treatments import python_env
from tests.contracts import trying


def test_the_child_runs_in_the_other_environment_and_says_what_it_found_there(tmp_path: Path) -> None:
    arm = f"python_env(path={trying.other_python()})"
    found = trying.run(trying.make_trial("numpy_dot", arm, tmp_path))
    assert found.outcome is Outcome.OK, found.reason
    evidence = found.evidence["python_env"]
    assert evidence["numpy_version"]
    assert evidence["math_libraries"]
    assert not any(str(tmp_path) in str(value) for value in evidence.values()), "no path of this machine is kept"


def test_this_environment_is_not_the_other() -> None:
    with pytest.raises(NoEffect, match="the process runs the Python in"):
        python_env.proof(None, None, None, path=trying.other_python())


def test_a_missing_interpreter_is_a_skip_with_its_path() -> None:
    trial = trying.make_trial("numpy_dot", "python_env(path=/nowhere/bin/python)", Path())
    assert trying.unmet(trial) == "python_env needs the command /nowhere/bin/python, which is not installed"


def test_another_torch_is_declared_and_another_device_is_not() -> None:
    def record(declared: tuple[str, ...], **facts: Any) -> TrialRecord:
        return TrialRecord(
            workload="toy", facts_json=json.dumps(facts), declared_changes_json=json.dumps(declared), params_json="{}"
        )

    before = record((), **{"torch.version": "2.14.1", "numpy.version": "2.4", "threads.intra": 1})
    after = record(python_env.TREATMENT.changes, **{"torch.version": "2.11", "numpy.version": "2", "threads.intra": 2})
    assert undeclared_differences(after, before) == ["threads.intra: 1 before, 2 after"]
