"""What `gpu-check` tries where, and how it calls what came of it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from harness.checking import Check, CheckPlan, Passed, plan_checks, results_of
from harness.commands.cli import main
from harness.record import Outcome, TrialRecord
from harness.spec import Kind, UsageError
from harness.store import Store
from tests.helpers import TOYS, machine

PLUGINS = Path(__file__).parent / "plugins"


def test_every_treatment_has_a_place_or_a_reason() -> None:
    plan = plan_checks(TOYS, machine(), "cpu", first=("toy",))
    by_name = {check.treatment: check for check in plan.checks}
    assert set(by_name) == set(TOYS.treatments)
    assert by_name["alpha"].workload == "toy train"
    assert by_name["conv_only"].workload == "conv_toy train"
    assert by_name["gpu_only"].obstacle == "gpu_only needs a CUDA device; this run is on cpu"
    tried = {(each.name, arm) for each in plan.experiments for arm in each.arms}
    assert tried == {(check.experiment, check.arm) for check in plan.checks if not check.obstacle}


def test_experiments_are_small_enough_for_the_processes() -> None:
    one, three = (plan_checks(TOYS, machine(), "cpu", processes=count).experiments for count in (1, 3))
    arms = sum(len(each.arms) for each in one)
    assert sum(len(each.arms) for each in three) == arms
    assert max(len(each.arms) for each in three) <= -(-arms // 3) < max(len(each.arms) for each in one)
    assert len({each.name for each in three}) == len(three)


def test_a_name_that_nobody_has_is_refused() -> None:
    with pytest.raises(UsageError, match="no treatment named 'alpah'; did you mean 'alpha'"):
        plan_checks(TOYS, machine(), "cpu", names=("alpah",))


def trial(kind: Kind, arm: str = "x", outcome: Outcome = Outcome.OK, **more: Any) -> TrialRecord:
    return TrialRecord(spec_id="s", arm=arm, kind=kind, outcome=outcome, reason="why", is_baseline=not arm, **more)


@pytest.mark.parametrize(
    ("trials", "result"),
    [
        ([trial(Kind.PREPARE), trial(Kind.NUMERICS)], Passed.PASSED),
        ([trial(Kind.PREPARE)], Passed.NOT_RUN),
        ([], Passed.NOT_RUN),
        ([trial(Kind.PREPARE, outcome=Outcome.NOT_APPLIED)], Passed.FAILED),
        ([trial(Kind.PREPARE), trial(Kind.NUMERICS, outcome=Outcome.WRONG_NUMERICS)], Passed.FAILED),
        ([trial(Kind.PREPARE, outcome=Outcome.TIMED_OUT)], Passed.NOT_RUN),
        ([trial(Kind.PREPARE, outcome=Outcome.NOT_APPLICABLE)], Passed.SKIPPED),
        ([trial(Kind.TIMING, outcome=Outcome.NOT_APPLICABLE)], Passed.SKIPPED),  # already so
        ([trial(Kind.PREPARE, arm="", outcome=Outcome.OOM_DEVICE)], Passed.FAILED),  # its baseline
    ],
)
def test_what_came_of_a_check(trials: list[TrialRecord], result: Passed) -> None:
    plan = CheckPlan((Check(treatment="x", arm="x", workload="w train", experiment="e"),), ())
    assert [line.result for line in results_of(plan, trials, {"e": "s"})] == [result]


def test_without_torch_there_are_no_numerics_to_wait_for() -> None:
    plan = CheckPlan((Check(treatment="x", arm="x", experiment="e", numerics=False),), ())
    assert results_of(plan, [trial(Kind.PREPARE)], {"e": "s"})[0].result is Passed.PASSED


def test_a_short_check_for_real(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One treatment that works, one that needs a GPU, one that does nothing: passed, skipped, and the exit code 4."""
    monkeypatch.setattr("harness.device_lock.runtime_folder", lambda: tmp_path)
    out = tmp_path / "out"
    argv = ["gpu-check", "--device", "cpu", "--no-timing", "--plugins", str(PLUGINS), "--out", str(out)]
    with pytest.raises(SystemExit) as ended:
        main([*argv, "--treatments", "zero_grad_fill pin_memory does_nothing", "--budget", "10m"])
    printed = capsys.readouterr().out
    lines = {line["what"]: line for line in json.loads((out / "gpu-check.json").read_text())}
    assert {name: line["result"] for name, line in lines.items()} == {
        "zero_grad_fill": "passed", "pin_memory": "skipped", "does_nothing": "failed",
    }, printed  # fmt: skip
    assert (ended.value.code, lines["zero_grad_fill"]["why"]) == (4, "proof and numerics hold")
    assert "1 passed, 1 failed, 1 skipped, 0 not run: budget" in printed
    assert {path.name for path in out.iterdir()} == {"gpu-check.json", "results.tar.gz"}
    with tarfile.open(out / "results.tar.gz") as archive:
        archive.extractall(tmp_path / "kept", filter="data")
    kept = Store(tmp_path / "kept").trials()
    assert {"zero_grad_fill"} <= {trial.arm for trial in kept if trial.outcome is Outcome.OK}
