"""Merges the small files of a results folder into few large ones, so that thousands of trials are read at once.

Crash-safe without a journal: the merged file is whole and on the disk before anything it was made from is removed, and
a reader takes a trial that lies in two files once, from the merged one. What a crash left behind, the next run clears.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import filelock
import pyarrow as pa

from harness.identity import new_id
from harness.store import files, parquet
from harness.store.bundle import COMPACT, SIBLINGS, Bundle, read_bundle, read_rows, trial_ids
from harness.store.store import Store, stems

LOCK = ".compact.lock"


def compact(store: Store, at_least: int = 50) -> int:
    """Merge trials if at least that many files can be; returns how many trials were merged.

    Does nothing while another process is at it. Damaged trials stay where they are, for `verify` to name.
    """
    if not (store.root / "trials").is_dir():
        return 0
    with files.explained(store.root):
        try:
            with filelock.FileLock(store.root / LOCK, timeout=0):
                files.failpoint("compact.start")
                _clear_after_crash(store.root)
                return _merge_small(store.root, at_least)
        except (filelock.Timeout, FileNotFoundError):  # another process is at it, perhaps on another machine
            return 0


def _merge_small(root: Path, at_least: int) -> int:
    bundles = _readable(root, _small(root))
    if len(bundles) < max(at_least, 2):
        return 0
    stem = _write(root, bundles)
    try:
        written = read_bundle(root, stem)
    except parquet.Damaged:  # a disk that does not give back what was written to it: keep what there was
        _remove(root, [stem])
        return 0
    assert written.trial_ids == frozenset().union(*(bundle.trial_ids for bundle in bundles)), stem
    files.failpoint("compact.removing")
    _remove(root, [bundle.stem for bundle in bundles])
    files.failpoint("compact.end")
    return len(written.trial_ids)


def _small(root: Path) -> list[str]:
    """All files of one trial, and those compact ones that are no larger than what they are merged with.

    So a trial is rewritten a number of times that grows with the logarithm of the store.
    """
    chosen = [stem for stem in stems(root / "trials") if not stem.startswith(COMPACT)]
    rows = len(chosen)
    compacted = {stem: _row_count(root, stem) for stem in stems(root / "trials", COMPACT)}
    for stem in sorted(compacted, key=lambda stem: compacted[stem]):
        if 0 < compacted[stem] <= rows:
            chosen.append(stem)
            rows += compacted[stem]
    return chosen


def _row_count(root: Path, stem: str) -> int:
    """How many trials a file holds, 0 where it is damaged."""
    try:
        return len(read_rows(root, stem))
    except parquet.Damaged:
        return 0


def _readable(root: Path, chosen: Iterable[str]) -> list[Bundle]:
    """The bundles that are whole; a trial that two of them hold (two folders were merged) stays in the first only."""
    bundles: list[Bundle] = []
    claimed: frozenset[str] = frozenset()
    for stem in chosen:
        try:
            bundle = read_bundle(root, stem)
        except parquet.Damaged:
            continue
        bundles.append(bundle if claimed.isdisjoint(bundle.trial_ids) else bundle.without(claimed))
        claimed |= bundle.trial_ids
    return bundles


def _write(root: Path, bundles: Sequence[Bundle]) -> str:
    """Write the merged file, its rows last; returns its stem."""
    stem = f"{COMPACT}{new_id()}"
    marks = {"harness.schema_version": _newest(bundles)}
    for folder in SIBLINGS:
        tables = [bundle.siblings[folder] for bundle in bundles if folder in bundle.siblings]
        if tables:
            content = parquet.encode(folder, _join(tables), marks)
            files.write_new(root / folder / f"{stem}.parquet", content)
            marks[f"harness.{folder}_sha256"] = hashlib.sha256(content).hexdigest()
        files.failpoint(f"compact.{folder}")
    rows = _join([bundle.trials for bundle in bundles])
    files.write_new(root / "trials" / f"{stem}.parquet", parquet.encode("trials", rows, marks))
    files.failpoint("compact.rows")
    return stem


def _join(tables: Sequence[pa.Table]) -> pa.Table:
    """One table, the rows of a trial together; columns that only newer files have are kept."""
    return pa.concat_tables([table.replace_schema_metadata(None) for table in tables], promote_options="default")


def _newest(bundles: Sequence[Bundle]) -> str:
    """The newest schema among the files merged, since their newer columns are kept."""
    versions: list[str] = [bundle.trials.schema.metadata[b"harness.schema_version"].decode() for bundle in bundles]
    return max(versions, key=lambda version: tuple(map(int, version.split("."))))


def _clear_after_crash(root: Path) -> None:
    """Remove what an interrupted run left: files all of whose trials lie in a compact file that is whole."""
    names = stems(root / "trials")
    for home in sorted(name for name in names if name.startswith(COMPACT)):
        try:
            held = trial_ids(read_rows(root, home))
            beside = {name for folder in SIBLINGS for name in stems(root / folder)}
            copies = held & (beside | set(names)) | _older_compact(root, home, names, held)
            if copies:
                read_bundle(root, home)
                _remove(root, sorted(copies))
        except parquet.Damaged:
            continue


def _older_compact(root: Path, home: str, names: Iterable[str], held: frozenset[str]) -> set[str]:
    """The compact files that `home` was made from: older ones that hold nothing else."""
    older = [name for name in names if name.startswith(COMPACT) and name < home]
    return {name for name in older if (root / "trials" / f"{name}.parquet").exists() and _holds(root, name) <= held}


def _holds(root: Path, stem: str) -> frozenset[str]:
    return trial_ids(read_rows(root, stem))


def _remove(root: Path, removed: Sequence[str]) -> None:
    """Remove row files, and then what lay beside them."""
    for folder in ("trials", *SIBLINGS):
        for stem in removed:
            (root / folder / f"{stem}.parquet").unlink(missing_ok=True)
        if (root / folder).is_dir():
            files.sync_folder(root / folder)
        files.failpoint(f"compact.removed_{folder}")
