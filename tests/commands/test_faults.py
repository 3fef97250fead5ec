"""The whole command with trials that hang: they end, the rest is measured, and nothing of theirs is left."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
import pytest

from harness.device_lock import hold_devices
from harness.record import Outcome
from harness.store import Store, verify
from tests.helpers import OWN_LOCKS

SHORT = """
question = "Do short trials end?"
workloads = ["ticking"]
input = "resident"
arms = []
[measure]
window_ms = 6.0
"""

PLUGINS = Path(__file__).parents[1] / "plugins"


SLOWER = "slowdown(percent=60)"


def start(
    results: Path, arms: str, *more: str, locks: Path | None = None, plugins: Path = PLUGINS
) -> subprocess.Popen[str]:
    """The command in a process of its own, below which everything it starts is to be found.

    `locks` is the folder of its device's lock.
    """
    experiment = results.parent / "short.toml"
    experiment.write_text(SHORT)
    argv = [
        "run", str(experiment), "--plugins", str(plugins), "--preset", "tiny", "--device", "cpu", "--max-blocks", "4",
        "--max-foreign-load", "64", "--max-steal", "1", "--treatments", arms, *more,
    ]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", OWN_LOCKS, *argv],
        cwd=locks or results.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trial_processes(results: Path) -> list[psutil.Process]:
    """What runs anywhere on the machine in a trial's work folder, daemons without a parent included."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.readlink(f"/proc/{process.pid}/cwd").startswith(str(results)) and process.is_running():
                found.append(process)
        except (OSError, psutil.Error):
            continue
    return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]


def wait_until(reached: Callable[[], bool], command: subprocess.Popen[str] | None = None, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it did not come so far"
        assert command is None or command.poll() is None, command.communicate()
        time.sleep(0.05)


def test_trials_that_hang_end_and_the_others_are_measured(results: Path):
    command = start(results, f"misbehaves(how=stubborn) misbehaves(how=daemon) {SLOWER}", "--trial-timeout", "3s")
    out, err = command.communicate(timeout=120)
    assert command.returncode == 1, err
    assert "slowdown(percent=60.0)" in out
    records = Store(results).trials()
    blocks = {record.block_index for record in records if record.arm.startswith("slowdown")}
    assert blocks >= {0, 1, 2, 3}, "a block that was disturbed or not steady is followed by another"
    hung = [record for record in records if record.outcome is Outcome.TIMED_OUT]
    assert {record.arm for record in hung} == {"misbehaves(how=daemon)", "misbehaves(how=stubborn)"}
    assert {record.reason for record in hung} == {"timed out in first step after 3 s, the limit of a whole trial"}
    noise = {Outcome.OK, Outcome.DISTURBED, Outcome.NOT_STEADY}
    assert all(record.outcome in noise for record in records if record not in hung)
    assert trial_processes(results) == []


HANGING_RANKS = "in_ranks(count=2)+misbehaves(how=stubborn)"


def hanging_ranks(results: Path, command: subprocess.Popen[str]) -> list[psutil.Process]:
    """Wait until both ranks of a launch hang, and ignore SIGTERM; torchrun's process, and then the ranks'."""

    def both_hang() -> bool:
        said = [path.read_text() for path in (results / ".work").glob("*/phase.rank*")]
        return said == ["first step", "first step"]

    wait_until(both_hang, command)
    time.sleep(0.2)  # for the step to begin
    below = psutil.Process(command.pid).children(recursive=True)
    return [each for each in below if "harness.child" in " ".join(each.cmdline())]


def all_are_gone(processes: Iterable[psutil.Process]) -> bool:
    return all(not each.is_running() or each.status() == psutil.STATUS_ZOMBIE for each in processes)


def test_ranks_die_with_their_launcher_and_a_signal_ends_them_all(results: Path):
    command = start(results, HANGING_RANKS)
    launcher, *ranks = hanging_ranks(results, command)
    assert len(ranks) == 2
    command.send_signal(signal.SIGSTOP)  # so that it is not this process that ends them
    launcher.kill()
    wait_until(lambda: all_are_gone([launcher, *ranks]), seconds=5)
    command.send_signal(signal.SIGCONT)
    wait_until(lambda: any(record.outcome is not Outcome.OK for record in Store(results).trials()), command)
    (record,) = [record for record in Store(results).trials() if record.outcome is not Outcome.OK]
    assert (record.outcome, record.reason) == (Outcome.CRASHED, "it was killed by SIGKILL in first step")
    hanging_ranks(results, command)  # a crash is tried again
    asked = time.monotonic()
    for _ in range(3):  # impatient
        command.send_signal(signal.SIGINT)
        time.sleep(0.2)
    _, err = command.communicate(timeout=20)
    assert time.monotonic() - asked < 5
    assert command.returncode == 130
    assert "Run the same command to go on" in err
    assert trial_processes(results) == []


def test_ranks_die_with_the_command(results: Path):
    command = start(results, HANGING_RANKS)
    hanging_ranks(results, command)
    command.kill()
    command.wait()
    wait_until(lambda: trial_processes(results) == [], seconds=5)


def test_sessions_on_different_devices_share_a_folder(results: Path, tmp_path: Path):
    """Two of the same experiment at once."""
    devices = [tmp_path / "one", tmp_path / "other"]
    for device in devices:
        device.mkdir()
    commands = [start(results, SLOWER, "--max-blocks", "2", locks=device) for device in devices]
    for command in commands:
        _, err = command.communicate(timeout=120)
        assert command.returncode == 0, err
    records = Store(results).trials()
    assert {record.outcome for record in records} <= {Outcome.OK, Outcome.NOT_STEADY}  # they disturb each other here
    blocks = Counter((record.session_id, record.block_index) for record in records if record.block_index is not None)
    assert len({session for session, _ in blocks}) == 2
    assert set(blocks.values()) == {2}
    assert verify(results) == []
    again = start(results, SLOWER, "--max-blocks", "2")
    again.communicate(timeout=120)
    assert Store(results).trials() == records


def test_a_second_session_on_a_device_is_refused_or_waits(results: Path):
    with hold_devices(["cpu"], folder=results.parent):
        refused = start(results, SLOWER)
        _, err = refused.communicate(timeout=60)
        assert refused.returncode == 2
        held = f"the CPU is being measured already, by process {os.getpid()}, since"
        assert f"error: {held}" in err
        odd = results.parent / "plug: ins\u202e\n%3A"  # every trial has to find it
        shutil.copytree(PLUGINS, odd)
        waiting = start(results, SLOWER, "--max-blocks", "2", "--wait", "2m", plugins=odd)
        assert waiting.stderr is not None
        assert f"waiting: {held}" in waiting.stderr.readline()
        assert list((results / "trials").iterdir()) == []
    _, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, err
    assert len(Store(results).trials()) == 5


@pytest.mark.full
def test_a_real_run_killed_with_its_child_goes_on_after_its_complete_blocks(results: Path):
    """ResNet-50 in three arms; neither process has the time to tidy up."""
    arms = "amp_bf16 foreach_optimizer fused_optimizer"
    argv = [
        "bench", "resnet50", "--treatments", arms, "--preset", "tiny", "--device", "cpu", "--input", "resident",
        "--max-blocks", "2", "--max-foreign-load", "64", "--max-steal", "1",
    ]  # fmt: skip
    run = [sys.executable, "-c", OWN_LOCKS, *argv]
    command = subprocess.Popen(run, cwd=results.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def is_in_the_second_block() -> bool:
        return any(record.block_index == 1 for record in Store(results).trials()) and bool(trial_processes(results))

    wait_until(is_in_the_second_block, command, seconds=900)
    for process in (psutil.Process(command.pid), *psutil.Process(command.pid).children(recursive=True)):
        process.kill()
    command.wait()
    wait_until(lambda: trial_processes(results) == [], seconds=5)
    finished = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in results.rglob("*.parquet")}
    first = Store(results).trials()
    again = subprocess.run(run, cwd=results.parent, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in finished} == finished
    known = {record.trial_id for record in first}
    new = [record for record in Store(results).trials() if record.trial_id not in known]
    assert sorted(record.position or 0 for record in new) == list(range(5))  # of the interrupted block, and whole
    assert {(record.kind, record.block_index) for record in new} == {("timing", 1)}
    assert [finding.kind for finding in verify(results) if finding.kind != "leftover"] == []
