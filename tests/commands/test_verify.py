"""`harness verify`, `compact` and their like on folders that are not as they should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.commands.cli import main
from harness.store import Store
from tests.store.making import make_trial, trial_name


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(argv))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture
def stored(results: Path) -> Path:
    store = Store(results)
    for number in range(3):
        store.write_trial(*make_trial(number))
    return results


def test_a_trial_overwritten_with_junk_is_a_loss_and_ends_with_exit_code_7(
    capsys: pytest.CaptureFixture[str], stored: Path
):
    assert run(capsys, "verify")[:2] == (0, "every file is whole\n")
    (stored / "trials" / f"{trial_name(1)}.parquet").write_bytes(b"junk " * 100)
    code, out, _ = run(capsys, "verify", "--json")
    found = {each["path"]: each["kind"] for each in json.loads(out)}
    assert code == 7
    assert found[f"trials/{trial_name(1)}.parquet"] == "altered"


def test_the_results_folder_comes_from_the_variable_or_the_command_line(
    capsys: pytest.CaptureFixture[str], stored: Path, monkeypatch: pytest.MonkeyPatch
):
    assert run(capsys, "compact")[1] == f"{stored}: 3 trials merged\n"
    monkeypatch.setenv("RESULTS", "/nowhere")
    assert run(capsys, "verify")[0] == 2
    assert run(capsys, "verify", str(stored))[0] == 0


@pytest.mark.parametrize("verb", [["verify"], ["compact"], ["judge", "latest"], ["status", "latest"], ["list", "runs"]])
def test_results_that_are_a_file_or_go_round_in_a_circle_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str]
):
    (tmp_path / "file").write_text("")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("file", "circle"):
        monkeypatch.setenv("RESULTS", str(tmp_path / name))
        code, _, err = run(capsys, *verb)
        assert code == 2, err
        assert f"{name} is no folder" in err
        assert "Traceback" not in err
