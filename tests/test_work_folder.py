"""A killed run's folders are cleared by the next one; those of living runs and those to be kept are not."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from harness.identity import new_id
from harness.work_folder import clear_leftovers, work_folder


def test_a_folder_is_there_for_as_long_as_its_trial_unless_it_is_kept(tmp_path: Path) -> None:
    with work_folder(tmp_path / new_id()) as gone, work_folder(tmp_path / new_id(), keep=True) as kept:
        (gone / "output").touch()
        assert gone.is_dir()
        assert clear_leftovers(tmp_path, young_s=0) == 0
    assert list(tmp_path.iterdir()) == [kept]
    assert clear_leftovers(tmp_path, young_s=0) == 0
    with pytest.raises(FileExistsError), work_folder(kept):
        pass
    assert kept.is_dir()


def test_what_a_killed_run_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    for name in ("mine", "0190a000"):
        (tmp_path / name).mkdir()
    (tmp_path / new_id()).write_text("a file")
    (tmp_path / new_id()).symlink_to(tmp_path / "mine")
    others = set(tmp_path.iterdir())
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        with work_folder(tmp_path / new_id()) as folder:
            (folder / "output").write_text("x")
            os.write(told, b"1")
            time.sleep(60)
    os.read(ready, 1)
    assert clear_leftovers(tmp_path, young_s=0) == 0
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert clear_leftovers(tmp_path) == 0  # it might have been made this moment
    assert clear_leftovers(tmp_path, young_s=0) == 1
    assert set(tmp_path.iterdir()) == others
    assert clear_leftovers(tmp_path / "nowhere") == 0
