"""One device, one measurement: a lock per device that dies with its holder, whatever kills it."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import filelock

from harness.spec import UsageError


@contextmanager
def hold_device(device: str, wait_s: float = 0, folder: Path | None = None) -> Iterator[None]:
    """Hold the lock of a device (a GPU's UUID, or "cpu") for a session.

    Waits up to `wait_s`; then raises UsageError that says who holds it, and since when. The lock is an flock on a file
    in the user's runtime folder: the kernel lets go of it when the process ends.
    """
    folder = folder or runtime_folder()
    path = folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', device)}.lock"
    lock = filelock.FileLock(path, timeout=wait_s, mode=0o600)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise UsageError(refusal(device, path.with_suffix(".json"))) from None
    try:
        holder = {"pid": os.getpid(), "started_at": datetime.now(UTC).isoformat(timespec="seconds")}
        path.with_suffix(".json").write_text(json.dumps(holder))
        yield
    finally:
        path.with_suffix(".json").unlink(missing_ok=True)
        lock.release()


def refusal(device: str, note: Path) -> str:
    """The sentence for somebody who finds the device busy."""
    what = "the CPU" if device == "cpu" else f"GPU {device}"
    try:
        holder = json.loads(note.read_text())
        who = f"process {holder['pid']}, since {holder['started_at']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return (
        f"{what} is being measured already, by {who}; two measurements on one device disturb each other: "
        "wait until it ends, or stop it"
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
