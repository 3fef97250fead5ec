"""`harness aa` as a user meets it, with real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.commands.aa_command import replicates_for
from harness.spec import UsageError
from tests.commands.test_cli import PLUGINS, QUIET, own_locks, run  # noqa: F401

SHORT = ("--preset", "tiny", "--device", "cpu", "--plugins", str(PLUGINS), *QUIET)


@pytest.mark.parametrize(("pairs", "runs"), [(1, 2), (3, 3), (4, 4), (20, 7), (21, 7), (22, 8), (120, 16)])
def test_the_fewest_runs_that_make_so_many_pairs(pairs: int, runs: int):
    assert replicates_for(pairs) == runs


def test_more_pairs_than_a_block_can_hold_are_refused():
    with pytest.raises(UsageError, match="at most 120"):
        replicates_for(121)


def test_identical_runs_are_compared_stored_and_cited(capsys: pytest.CaptureFixture[str], results: Path):
    folders = ("--results", str(results), "--reports", str(results.parent / "reports"))
    code, out, err = run(capsys, "aa", "ticking", "--comparisons", "3", "--blocks", "4", *SHORT, *folders)
    assert code in (0, 4), err  # 4 where the machine is so busy that identical runs differ
    assert "noise floor" in out
    printed = out
    page = Path(out.split("report: ")[1].splitlines()[0]).read_text(encoding="utf-8")
    assert "What this machine can tell apart" in page
    code, out, _ = run(capsys, "judge", "latest", str(results), "--json")
    judged = json.loads(out)
    assert {(row["baseline"], row["arm"]) for row in judged["verdicts"]} == {
        ("run 1", "run 2"), ("run 1", "run 3"), ("run 2", "run 3"),
    }  # fmt: skip
    assert {row["blocks"] for row in judged["verdicts"]} == {4}
    (calibration,) = judged["calibrations"]
    assert (calibration["workload"], calibration["comparisons"], calibration["blocks"]) == ("ticking", 3, 4)
    assert calibration["noise_floor"] > 0
    assert [session["counted"] for session in judged["sessions"]] == [12]
    assert "session 1" in printed


def test_treatments_make_no_aa(capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys, "aa", "ticking", "--treatments", "slowdown", *SHORT)
    assert code == 2
    assert "takes no TREATMENTS" in err
