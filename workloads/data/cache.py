"""Makes a folder of data once, whoever asks first, and knows it again: atomic, verified, its digest kept beside it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import random
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.spec import UsageError

MANIFEST = "manifest.json"
FULL_HASH_BYTES = 2 * 1024**3
SAMPLE_BYTES = 256 * 1024**2
_CHUNK_BYTES = 1024**2
_LEFTOVER_SECONDS = 24 * 3600
_PUBLISH_ATTEMPTS = 8


@dataclass(frozen=True)
class Made:
    """A finished folder of the cache."""

    folder: Path
    digest: str
    """SHA-256 over the names and contents of its files, computed when it was made."""
    items: int


def make_once(cache: Path, name: str, make: Callable[[Path], int]) -> Made:
    """Give the folder `name` of the cache, letting `make(folder) -> items` fill it where it is missing or damaged.

    The folder is filled under a temporary name and renamed, so a reader never sees half of one; where two processes
    make the same, the first to finish wins. A damaged one (a file missing, or of another size) is made again.
    """
    target = cache / name
    made = _read_intact(target)
    if made is not None:
        return made
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(cache)
        draft = cache / f".{name}.{uuid.uuid4().hex}"
        draft.mkdir()
        try:
            _write_manifest(draft, make(draft))
            return _publish(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise _cannot_write(cache, error) from error


def user_files_digest(cache: Path, root: Path, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Identify the user's own files: (SHA-256, warnings).

    Up to 2 GiB the digest covers every name and every byte. Beyond that it covers every name and size, and the bytes
    of a fixed random sample of whole files, 256 MiB or one file; the warning says so. It is computed once, and
    remembered in the cache for as long as no name, size or modification time changes.
    """
    stats = [_stat(root / name) for name in names]
    listing = hashlib.sha256(f"{root.resolve()}\n".encode())
    for name, stat in zip(names, stats, strict=True):
        listing.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    sizes = [stat.st_size for stat in stats]
    memo = cache / f"user-{listing.hexdigest()[:32]}.json"
    hashed = list(range(len(names))) if sum(sizes) <= FULL_HASH_BYTES else _sample(sizes)
    warnings: tuple[str, ...] = ()
    if len(hashed) < len(names):
        contents = f"the contents of {len(hashed)} of {len(names)} files"
        warnings = (f"{root} holds {sum(sizes) / 1e9:.1f} GB: its digest covers all names and sizes, and {contents}",)
    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(json.loads(memo.read_text())["digest"]), warnings
    digest = _digest(root, names, sizes, frozenset(hashed))
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _write_text(memo, json.dumps({"root": str(root), "digest": digest}))
    except OSError as error:
        raise _cannot_write(cache, error) from error
    return digest, warnings


# ------------------------------------------------------------------------------------------------ the cache's own


def _read_intact(folder: Path) -> Made | None:
    """Read a finished folder; None where there is none, or one whose files are not those of its manifest."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if any(os.stat(folder / name).st_size != size for name, size in manifest["files"].items()):
            return None
        return Made(folder, str(manifest["digest"]), int(manifest["items"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write_manifest(folder: Path, items: int) -> None:
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    sizes = [_stat(folder / name).st_size for name in names]
    digest = _digest(folder, names, sizes, frozenset(range(len(names))))
    manifest = {"items": items, "digest": digest, "files": dict(zip(names, sizes, strict=True))}
    _write_text(folder / MANIFEST, json.dumps(manifest, indent=1))


def _publish(draft: Path, target: Path) -> Made:
    for _ in range(_PUBLISH_ATTEMPTS):
        try:
            draft.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        made = _read_intact(target)
        if made is not None:
            return made  # ours, or that of a process that finished first
        _set_aside(target)
    raise OSError(errno.EBUSY, "other processes keep replacing it", str(target))


def _set_aside(folder: Path) -> None:
    """Take a damaged folder out of the way; another process may be doing the same."""
    grave = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(grave)
    shutil.rmtree(grave, ignore_errors=True)


def _remove_leftovers(cache: Path) -> None:
    """Remove what killed processes left behind; a day is longer than any making takes."""
    for entry in os.scandir(cache):
        if entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - entry.stat().st_mtime > _LEFTOVER_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)


def _write_text(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        draft.write_text(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _cannot_write(cache: Path, error: OSError) -> UsageError:
    reason = error.strerror or error
    return UsageError(
        f"the data cache {cache} cannot be written: {reason}; free some space there or name another folder"
    )


# ------------------------------------------------------------------------------------------------ hashing


def _digest(root: Path, names: Sequence[str], sizes: Sequence[int], with_contents: Iterable[int]) -> str:
    """SHA-256 over every name and size, and the contents of the files at the given places."""
    digest, chosen = hashlib.sha256(), frozenset(with_contents)
    for place, (name, size) in enumerate(zip(names, sizes, strict=True)):
        digest.update(f"{len(name)}:{name}:{size}:{'contents' if place in chosen else 'size'}\n".encode())
        if place in chosen:
            _update_from(digest, root / name)
    return digest.hexdigest()


def _update_from(digest: hashlib._Hash, path: Path) -> None:
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; make it readable or remove it") from error


def _sample(sizes: Sequence[int]) -> list[int]:
    """Places of the files whose contents stand for the rest: a fixed random order, until the sample is full."""
    order = list(range(len(sizes)))
    random.Random(0).shuffle(order)
    chosen: list[int] = []
    total = 0
    for place in order:
        total += sizes[place]
        if chosen and total > SAMPLE_BYTES:  # one file at least, however large
            break
        chosen.append(place)
    return sorted(chosen)


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; make it readable or remove it") from error
