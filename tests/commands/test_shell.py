"""Two command lines as the before and the after of an experiment, from the command line to the verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.store import Store
from tests.commands.test_cli import QUIET, own_locks, run

__all__ = ["own_locks"]


@pytest.mark.full
def test_two_commands_end_in_a_verdict_with_what_each_wrote(capsys: pytest.CaptureFixture[str]):
    """They wait rather than work, so that what else the machine does tells little."""
    arm = "other_command(line='sh -c \"echo after; sleep 0.02\"')"
    code, out, err = run(
        capsys, "run", "-w", "shell", "--param", "command=sh -c 'echo before; sleep 0.1'", "--treatments", arm,
        "--preset", "tiny", "--device", "cpu", "--max-blocks", "4", *QUIET,
    )  # fmt: skip
    assert code == 0, err
    assert "FASTER" in out
    timed = [trial for trial in Store(Path.cwd() / "results").trials() if trial.kind == "timing"]
    assert len(timed) == 8
    for trial in timed:
        facts = json.loads(trial.facts_json)
        assert facts["kept.output"] == ("after\n" if trial.arm else "before\n")
        assert facts["kept.runs"] > 5, "the warm-up, and windows enough"
