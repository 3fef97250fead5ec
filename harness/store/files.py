"""One file, written so that it is either whole and on the disk, or not there."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.identity import new_id
from harness.spec import UsageError

FAILPOINTS = (
    "write.temporary",
    "write.half",
    "write.synced",
    "write.linked",
    "trial.start",
    "trial.steps",
    "trial.telemetry",
    "trial.row",
    "compact.start",
    "compact.steps",
    "compact.telemetry",
    "compact.rows",
    "compact.removing",
    "compact.removed_trials",
    "compact.removed_steps",
    "compact.removed_telemetry",
    "compact.end",
)
"""Where a test can have the process killed: HARNESS_FAILPOINT=name, or name:3 for the third time it is passed."""

_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Die here by SIGKILL if the environment asks for it."""
    asked = os.environ.get("HARNESS_FAILPOINT")
    if asked is None:
        return
    assert name in FAILPOINTS, name
    wanted, _, times = asked.partition(":")
    _passed[name] = _passed.get(name, 0) + 1
    if wanted == name and _passed[name] == int(times or 1):
        os.kill(os.getpid(), signal.SIGKILL)


def forget_passed() -> None:
    """Begin to count failpoints anew, in a process forked from a test."""
    _passed.clear()


def is_temporary(path: Path) -> bool:
    """Whether a file is a leftover of a write that never ended: readers ignore it."""
    return path.name.startswith(".")


def write_new(path: Path, content: bytes) -> None:
    """Write a file that no reader ever sees half-written; raises FileExistsError rather than overwrite one.

    Temporary name in the same folder (so that no rename crosses file systems), fsync, link, fsync of the folder.
    """
    temporary = path.with_name(f".{path.name}.{new_id()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            failpoint("write.temporary")
            _write_all(descriptor, content[: len(content) // 2])
            failpoint("write.half")
            _write_all(descriptor, content[len(content) // 2 :])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        failpoint("write.synced")
        _link(temporary, path)
        failpoint("write.linked")
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, durable; does nothing if it is there."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
    sync_folder(folder.parent)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.rename(path)  # a file system without hard links; names are unique, so nothing is overwritten


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot sync a folder
            raise
    finally:
        os.close(descriptor)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the operating system says of a results folder into a sentence that says what to do."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise UsageError(_sentence(error, path)) from error


def _sentence(error: OSError, path: Path) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return (
                f"no space left for {path} ({os.strerror(error.errno)}); everything written before is untouched: "
                "free some space and run the same command again"
            )
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return f"{path} cannot be written ({os.strerror(error.errno)}); give a folder that you may write to"
        case errno.ENOTDIR | errno.EEXIST | errno.ELOOP:
            return (
                f"{path} cannot be a results folder: part of the path is a file, or a link that leads nowhere; "
                "give another folder"
            )
    return f"results cannot be written to {path}: {error.strerror or error}"
