"""`harness new`: what it writes is found, described and run as it is; what exists is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands import new_command
from harness.plan import PRESETS
from harness.record import Outcome
from harness.registry import load_registry
from tests.commands.test_cli import own_locks, run
from tests.contracts import trying

__all__ = ["own_locks"]


def written(capsys: pytest.CaptureFixture[str], kind: str, name: str, folder: Path) -> Path:
    code, out, err = run(capsys, "new", kind, name, "--to", str(folder))
    assert (code, err) == (0, "")
    assert f"--plugins {folder}" in out
    return folder / f"{name}.py"


def test_a_new_workload_is_found_and_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = written(capsys, "workload", "made_anew", tmp_path / "mine")
    workload = load_registry([path.parent]).workload("made_anew")
    assert set(workload.presets) == set(PRESETS)
    assert len({frozenset(params) for params in workload.presets.values()}) == 1
    code, out, err = run(capsys, *f"plan --plugins {path.parent} -w made_anew --preset tiny --device cpu".split())
    assert code == 0, err
    assert "made_anew" in out


def test_a_new_workload_steps_in_both_modes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = written(capsys, "workload", "steps_anew", tmp_path / "mine")
    plugged = load_registry([path.parent])
    monkeypatch.setattr(trying, "registry", lambda: plugged)
    for mode in plugged.workload("steps_anew").modes:
        record = trying.run_afresh(trying.make_trial("steps_anew", "", tmp_path, mode=mode))
        assert record.outcome in (Outcome.OK, Outcome.NOT_STEADY), record.reason
        assert record.items_per_step == 32


def test_a_new_treatment_proves_itself_and_not_its_twin(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On the new workload beside it, which is all that a reader has who starts from both."""
    folder = tmp_path / "both"
    written(capsys, "workload", "treated_anew", folder)
    written(capsys, "treatment", "clipped_anew", folder)
    plugged = load_registry([folder])
    monkeypatch.setattr(trying, "registry", lambda: plugged)

    def trial(arm: str, prove: str = ""):
        return trying.make_trial("treated_anew", arm, tmp_path, prove=prove)

    real = trying.run_afresh(trial("clipped_anew"))
    assert real.outcome in (Outcome.OK, Outcome.NOT_STEADY), real.reason
    assert real.evidence["clipped_anew"]["norms_in_a_step"] > 0
    twin = trying.run_afresh(trial("clipped_anew"), frozenset({"clipped_anew"}))
    assert (twin.outcome, twin.reason) == (Outcome.NOT_APPLIED, "clipped_anew: no norm is computed in a step")
    untreated = trying.run_afresh(trial("", prove="clipped_anew"))
    assert untreated.outcome in (Outcome.OK, Outcome.NOT_STEADY), untreated.reason
    assert not untreated.already_so
    assert "foreign_proof_errors" not in untreated.facts


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("workload", "My-Model", "'My-Model' is no name for a workload; use lower-case letters"),
        ("treatment", "2fast", "is no name for a treatment"),
        ("workload", "resnet50", "a workload named 'resnet50' exists already in"),
        ("treatment", "amp_bf16", "a treatment named 'amp_bf16' exists already in"),
    ],
)
def test_a_name_that_is_none_or_taken_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str, name: str, words: str
):
    code, _, err = run(capsys, "new", kind, name, "--to", str(tmp_path / "mine"))
    assert code == 2
    assert words in err
    assert not (tmp_path / "mine").exists()


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = written(capsys, "workload", "kept_as_is", tmp_path / "mine")
    path.write_text("# mine\n")
    for kind in new_command.KINDS:
        code, _, err = run(capsys, "new", kind, "kept_as_is", "--to", str(path.parent))
        assert code == 2
        assert f"{path} exists already" in err
    assert path.read_text() == "# mine\n"
