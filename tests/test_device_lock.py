"""One device is measured by one session, and a dead one holds nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from harness import device_lock
from harness.device_lock import hold_devices
from harness.spec import UsageError


def holder(folder: Path, device: str) -> int:
    """A process that holds a device until it is killed."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        with hold_devices([device], folder=folder):
            os.write(told, b"1")
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    return pid


def test_a_second_session_is_refused_in_words_until_the_first_is_dead(tmp_path: Path) -> None:
    pid = holder(tmp_path, "GPU-a")
    try:
        refusal = rf"GPU GPU-a is being measured already, by process {pid}, since 20\d\d-"
        with pytest.raises(UsageError, match=refusal), hold_devices(["GPU-a"], folder=tmp_path):
            pass
        with hold_devices(["GPU-b", "cpu"], folder=tmp_path):
            pass  # other devices are free
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    with hold_devices(["GPU-a"], folder=tmp_path):
        pass


def test_a_session_may_wait_for_the_device(tmp_path: Path) -> None:
    pid = holder(tmp_path, "cpu")
    if os.fork() == 0:
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        os._exit(0)
    told: list[str] = []
    started = time.monotonic()
    with hold_devices(["cpu"], wait_s=20, folder=tmp_path, tell=told.append):
        assert 0.1 < time.monotonic() - started < 15
    assert told == [f"waiting: the CPU is being measured already, by process {pid}, since {told[0][-25:]}"]
    os.waitpid(pid, 0)
    os.wait()


def test_waiting_for_a_second_device_lets_go_of_the_first(tmp_path: Path) -> None:
    pid = holder(tmp_path, "GPU-b")
    try:
        two = hold_devices(["GPU-b", "GPU-a"], wait_s=0.1, folder=tmp_path)
        with pytest.raises(UsageError, match="GPU GPU-b is being measured"), two:
            pass
        with hold_devices(["GPU-a"], folder=tmp_path):
            pass
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_holder_that_left_no_note_is_still_refused(tmp_path: Path) -> None:
    with hold_devices(["cpu"], folder=tmp_path):
        (tmp_path / "cpu.json").write_text("{broken")
        assert "another process" in device_lock.refusal("cpu", tmp_path / "cpu.json")
        assert device_lock.refusal("cpu", tmp_path / "missing.json").startswith("the CPU is being measured already")


def test_the_lock_is_let_go_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in the session"), hold_devices(["cpu"], folder=tmp_path):
        raise ValueError("in the session")
    with hold_devices(["cpu"], folder=tmp_path):
        pass


def test_locks_lie_in_a_folder_of_the_user(tmp_path: Path) -> None:
    folder = device_lock.runtime_folder()
    assert folder.stat().st_uid == os.getuid()
    assert folder.stat().st_mode & 0o077 == 0
