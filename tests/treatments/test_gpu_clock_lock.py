"""The guard of locked clocks: real processes, and a driver that only writes down what it is asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.launch import become_subreaper, kill_tree
from harness.machine import Gpu
from harness.plan import make_plan
from harness.spec import Experiment, NoEffect, ProcessChange, Requires, UsageError
from harness.treatments import gpu_clock_lock
from tests.helpers import machine, registry, treatment, workload

DRIVER = """
import os
def note(text):
    with open(os.environ["DRIVER_LOG"], "a") as log:
        log.write(text + "\\n")
def nvmlInit(): pass
def nvmlDeviceGetHandleByUUID(uuid): return uuid
def nvmlDeviceSetGpuLockedClocks(handle, low, high):
    if low == 1: raise PermissionError("not allowed")
    note(f"lock {handle} {low} {high}")
def nvmlDeviceResetGpuLockedClocks(handle): note(f"reset {handle}")
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "pynvml.py").write_text(DRIVER)
    return tmp_path / "log"


def start(log: Path, *command: str, low: int = 1000) -> subprocess.Popen[str]:
    change = gpu_clock_lock.process(
        ProcessChange(), machine(gpus=(Gpu(index=0, name="toy", uuid="GPU-1"),)), min=low, max=1800
    )
    roots = os.pathsep.join([str(log.parent), *filter(None, sys.path)])
    return subprocess.Popen(
        [*change.prefix, *command],
        env={**os.environ, "PYTHONPATH": roots, "DRIVER_LOG": str(log)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def lines(log: Path, count: int) -> list[str]:
    """What the driver was asked, once so many lines are there."""
    for _ in range(200):
        found = log.read_text().splitlines() if log.exists() else []
        if len(found) >= count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"the driver was asked {found} only")


def test_clocks_are_locked_before_the_command_and_reset_after_it(log: Path) -> None:
    process = start(log, sys.executable, "-c", "import os; print(open(os.environ['DRIVER_LOG']).read())")
    out, _ = process.communicate(timeout=30)
    assert out.split() == ["lock", "GPU-1", "1000", "1800"]
    assert process.returncode == 0
    assert log.read_text().splitlines() == ["lock GPU-1 1000 1800", "reset GPU-1"], "unlocked before it ends"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_kill_does_not_leave_them_locked(log: Path, number: signal.Signals) -> None:
    process = start(log, "sleep", "5")
    lines(log, 1)
    process.send_signal(number)
    process.wait(timeout=30)
    assert lines(log, 2)[1] == "reset GPU-1"


def test_the_launcher_ending_a_trial_leaves_them_unlocked(log: Path) -> None:
    """It ends everything that a trial has started, what holds the lock included."""
    become_subreaper()
    earlier = psutil.Process().children(recursive=True)
    process = start(log, "sleep", "60")
    lines(log, 1)
    kill_tree(process, earlier)
    assert lines(log, 2)[1] == "reset GPU-1"


def test_what_the_driver_refuses_is_told_and_nothing_runs(log: Path) -> None:
    out, err = start(log, "echo", "ran", low=1).communicate(timeout=30)
    assert out == ""
    assert "could not be locked to 1-1800 MHz: PermissionError: not allowed" in err


def test_clocks_that_a_free_gpu_shows_are_no_sign_of_a_lock() -> None:
    assert gpu_clock_lock.judged([1500, 1800], 1980, 1000, 1800)["clocks_mhz"] == [1500, 1800]
    for seen, highest, words in (
        ([1980], 1980, "at [1980] MHz"),
        ([1800], 1800, "cannot be told"),
        ([], 1980, "at []"),
    ):
        with pytest.raises(NoEffect) as refusal:
            gpu_clock_lock.judged(seen, highest, 1000, 1800)
        assert words in str(refusal.value)


def test_a_range_upside_down_is_refused() -> None:
    with pytest.raises(UsageError, match="min=1900 is above max=1800"):
        gpu_clock_lock.process(ProcessChange(), machine(), min=1900, max=1800)


@pytest.mark.parametrize(
    ("root", "allowed", "reason"),
    [(False, True, "needs root"), (True, False, "--allow-privileged"), (True, True, "")],
)
def test_it_is_run_by_root_who_asks_for_it_only(root: bool, allowed: bool, reason: str) -> None:
    toys = registry([treatment("locks", requires=Requires(root=True))], [workload("toy")])
    asked = Experiment(workloads=("toy",), arms=("locks",), preset="tiny")
    skips = make_plan(asked, toys, machine(is_root=root, allows_privileged=allowed)).skips
    assert [reason in skip.reason for skip in skips] == ([True] if reason else [])
