"""Trials to store, made from numbers, and processes that die on the way."""

from __future__ import annotations

import hashlib
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

from harness.record import Outcome, Sample, TrialRecord, Window
from harness.store import Store, files

Made = tuple[TrialRecord, list[Window], list[Sample]]


def trial_name(number: int) -> str:
    """A UUIDv7 that depends on nothing but a number."""
    return f"0190a000-{number >> 12:04x}-7{number & 0xFFF:03x}-8000-{number:012x}"


def make_trial(number: int, windows: int = 3, samples: int = 2, spec_id: str = "s" + "1" * 64) -> Made:
    """A trial whose every value follows from its number."""
    name = trial_name(number)
    record = TrialRecord(
        trial_id=name,
        spec_id=spec_id,
        session_id=trial_name(1 << 20),
        block_index=number // 3,
        position=number % 3,
        workload="resnet50",
        arm="amp_bf16" if number % 2 else "",
        outcome=Outcome.OK,
        started_at="2026-01-02T03:04:05.000006+00:00",
        raw_median_window_ns=1e8 + number,
        loss_after=None,
        steps_asked=5 * windows,
    )
    return (
        record,
        [
            Window(trial_id=name, window_index=i, step_count=5, host_ns=10**8 + 1000 * number + i, data_wait_ns=i)
            for i in range(windows)
        ],
        [Sample(trial_id=name, monotonic_ns=10**9 * i, cpu_busy_ns=number + i) for i in range(samples)],
    )


def in_child(work: Callable[[], object], failpoint: str | None = None) -> int:
    """Do the work in a forked process, perhaps one that is killed at a failpoint; returns its wait status."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            files.forget_passed()
            if failpoint:
                os.environ["HARNESS_FAILPOINT"] = failpoint
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def was_killed(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def hashes(root: Path) -> dict[str, str]:
    """SHA-256 of every file by its path."""
    files_there = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files_there}


def content(store: Store, trial_id: str) -> tuple[object, ...]:
    """Everything that is read of one trial, comparable."""
    (record,) = [record for record in store.trials() if record.trial_id == trial_id]
    tables = [store.windows([trial_id]), store.samples([trial_id])]
    return (
        record,
        *({name: repr(values.tolist()) for name, values in each.get(trial_id, {}).items()} for each in tables),
    )
