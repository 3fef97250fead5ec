"""The folder that a trial works in, and what becomes of it when a run is killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

OURS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
KEPT = "kept"
"""A file in a folder that the user asked to keep."""
YOUNG_S = 60.0
"""Before this age a folder may not have been locked yet by who made it."""


@contextlib.contextmanager
def work_folder(path: Path, keep: bool = False) -> Iterator[Path]:
    """Make a trial's folder, locked while this process lives; remove it in the end unless it is to be kept."""
    path.mkdir(parents=True)
    if keep:
        (path / KEPT).touch()
    try:
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):  # a file system without locks: then leftovers stay
                held.enter_context(_locked(path))
            yield path
    finally:
        if not keep:
            shutil.rmtree(path, ignore_errors=True)


def clear_leftovers(folder: Path, young_s: float = YOUNG_S) -> int:
    """Remove the trials' folders of runs that were killed, and nothing else; returns how many there were."""
    removed = 0
    for entry in os.scandir(folder) if folder.is_dir() else ():
        path = Path(entry.path)
        if not OURS.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False) or (path / KEPT).exists():
            continue
        with contextlib.suppress(OSError):  # it is locked, or somebody else's, or was removed meanwhile
            if time.time() - path.stat().st_mtime > young_s:
                with _locked(path):
                    shutil.rmtree(path)
                    removed += 1
    return removed


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a folder's lock, which ends with this process. Raises OSError where another holds it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
