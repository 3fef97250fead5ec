"""One device, one measurement: a lock per device that dies with its holder, whatever kills it."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import filelock

from harness.spec import UsageError

LOOK_S = 1.0
"""How often a session that waits looks again; seldom, since what it waits for is measuring."""


@contextmanager
def hold_devices(
    devices: Iterable[str], wait_s: float = 0, folder: Path | None = None, tell: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Hold the locks of devices (the UUIDs of GPUs, or "cpu") for a session.

    Waits up to `wait_s` for all of them, and tells for whom; then raises UsageError that says who holds the device, and
    since when. A lock is an flock on a file in the user's runtime folder: the kernel lets go of it when the process
    ends.
    """
    deadline = time.monotonic() + wait_s
    with ExitStack() as held:
        for device in sorted(set(devices)):  # in one order, so that no two sessions wait for each other
            left_s = max(0.0, deadline - time.monotonic())
            held.enter_context(_hold(device, left_s, folder or runtime_folder(), tell))
        yield


@contextmanager
def _hold(device: str, wait_s: float, folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    path = folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', device)}.lock"
    note = path.with_suffix(".json")
    lock = filelock.FileLock(path, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        if wait_s:
            tell(f"waiting: {busy(device, note)}")
        try:
            lock.acquire(timeout=wait_s, poll_interval=LOOK_S)
        except filelock.Timeout:
            raise UsageError(refusal(device, note)) from None
    try:
        holder = {"pid": os.getpid(), "started_at": datetime.now(UTC).isoformat(timespec="seconds")}
        note.write_text(json.dumps(holder))
        yield
    finally:
        note.unlink(missing_ok=True)
        lock.release()


def busy(device: str, note: Path) -> str:
    """Who measures on a device, as far as the holder's note says."""
    what = "the CPU" if device == "cpu" else f"GPU {device}"
    try:
        holder = json.loads(note.read_text())
        who = f"process {holder['pid']}, since {holder['started_at']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return f"{what} is being measured already, by {who}"


def refusal(device: str, note: Path) -> str:
    """The sentence for somebody who finds the device busy."""
    return (
        f"{busy(device, note)}; two measurements on one device disturb each other: "
        "wait until it ends (--wait 2h does), or stop it"
    )


def runtime_folder() -> Path:
    """The folder for this user's locks: one and the same for every session of the user on this machine."""
    user = os.getuid()
    home = Path(f"/run/user/{user}")
    folder = home / "torch-trials" if os.access(home, os.W_OK) else Path(f"/tmp/torch-trials-{user}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user:
        raise UsageError(f"{folder} belongs to somebody else, so no device can be locked there; remove it")
    return folder
