"""Looks at every file of a results folder and says which are not as they were written; repairs nothing by itself."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from harness.identity import environment_id, new_id
from harness.record import Fact
from harness.spec import UsageError
from harness.store import files, parquet
from harness.store.bundle import COMPACT, SIBLINGS, read_rows, read_sibling, trial_ids
from harness.store.finding import Finding
from harness.store.schema import to_rows
from harness.store.store import FOLDERS, stems, text_is_sealed

Rows = dict[str, pa.Table]
"""By stem, of the rows in trials/ the columns that tell what lies beside them."""
WITNESSES = tuple(f"{folder}_{what}" for folder in SIBLINGS for what in ("rows", "sha256"))
LOOKS = 10
QUARANTINE = "quarantine"
MOVED = ("empty", "truncated", "altered", "foreign", "leftover", "orphan")
"""What `quarantine` moves. A newer file is whole, and a missing one is not there."""


def verify(root: Path) -> list[Finding]:
    """Everything in a results folder that is not as it should be, in order of the paths.

    Looks again where files were taken away meanwhile: by a compaction, which leaves their trials in another file.
    """
    if not root.is_dir():
        raise UsageError(f"there is no results folder {root}")
    for _ in range(LOOKS):
        before = set(stems(root / "trials"))
        try:
            found = _look(root)
        except FileNotFoundError:
            continue
        if before <= set(stems(root / "trials")):
            return found
    raise UsageError(f"files of {root} go away while they are read; check it when nothing else works on it")


def _look(root: Path) -> list[Finding]:
    rows: Rows = {}
    found = [*_check_names(root), *_check_rows(root, rows), *_check_siblings(root, rows)]
    found += [*_check_copies(rows), *_check_environments(root), *_check_specs(root)]
    return sorted(found, key=lambda finding: (finding.path, finding.kind))


def _check_names(root: Path) -> Iterator[Finding]:
    for folder in FOLDERS:
        ending = ".toml" if folder == "specs" else ".parquet"
        for path in _entries(root / folder):
            if files.is_temporary(path):
                yield _finding(root, path, "leftover", "of a write that never ended; nothing refers to it")
            elif not path.is_file() or path.suffix != ending:
                yield _finding(root, path, "foreign", f"not a file that a harness writes into {folder}/")


def _check_rows(root: Path, rows: Rows) -> Iterator[Finding]:
    """Check the files in trials/, and fill `rows` from every one that can be used."""
    for path in _parquet_files(root / "trials"):
        try:
            rows[path.stem] = read_rows(root, path.stem).select(["trial_id", *WITNESSES])
        except parquet.Damaged as damage:
            yield Finding.of(path.relative_to(root), damage)


def _check_siblings(root: Path, rows: Rows) -> Iterator[Finding]:
    for folder in SIBLINGS:
        for stem, table in rows.items():
            try:
                read_sibling(root, folder, stem, table)
            except parquet.Damaged as damage:
                yield Finding.of(Path(folder, f"{stem}.parquet"), damage)
        for path in _parquet_files(root / folder):
            if path.stem not in rows:
                yield _check_orphan(root, folder, path)


def _check_orphan(root: Path, folder: str, path: Path) -> Finding:
    try:
        parquet.decode(folder, parquet.load(path))
    except parquet.Damaged as damage:
        return Finding.of(path.relative_to(root), damage)
    return _finding(root, path, "orphan", "no usable row in trials/ refers to it: of a write that died before its row")


def _check_copies(rows: Rows) -> Iterator[Finding]:
    homes: dict[str, str] = {}
    for stem in sorted(rows, key=lambda stem: (not stem.startswith(COMPACT), stem)):
        held = trial_ids(rows[stem])
        copies = [trial_id for trial_id in held if trial_id in homes]
        if copies:
            reason = f"{len(copies)} of its trials lie in trials/{homes[copies[0]]}.parquet too; each is read once"
            yield Finding(path=f"trials/{stem}.parquet", kind="duplicate", reason=reason)
        homes |= dict.fromkeys(held, stem)


def _check_environments(root: Path) -> Iterator[Finding]:
    for path in _parquet_files(root / "environments"):
        try:
            facts = to_rows(parquet.decode("environments", parquet.load(path)), Fact)
        except parquet.Damaged as damage:
            yield Finding.of(path.relative_to(root), damage)
            continue
        if environment_id(facts) != path.stem:
            yield _finding(root, path, "altered", "the facts in it have another id than its name")


def _check_specs(root: Path) -> Iterator[Finding]:
    for path in _entries(root / "specs"):
        if path.suffix != ".toml" or not path.is_file() or files.is_temporary(path):
            continue
        try:
            if not text_is_sealed(parquet.load(path)):
                reason = "the text was altered after it was written: its SHA-256 does not fit"
                yield _finding(root, path, "altered", reason)
        except parquet.Damaged as damage:
            yield Finding.of(path.relative_to(root), damage)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _parquet_files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.suffix == ".parquet" and not files.is_temporary(path)]


def _finding(root: Path, path: Path, kind: str, reason: str) -> Finding:
    return Finding(path=str(path.relative_to(root)), kind=kind, reason=reason)


# ------------------------------------------------------------------------------------------------ quarantine


def quarantine(root: Path, findings: Sequence[Finding], young_seconds: float = 3600) -> list[str]:
    """Move what `verify` found unusable into quarantine/, never over another file; returns the paths moved.

    A damaged file takes with it what lies beside it in the other folders, since a trial without its windows is none;
    the same command then measures the trial again. What a live process may still be writing (leftovers and orphans
    younger than `young_seconds`) stays.
    """
    moved: list[str] = []
    with files.explained(root):
        for path in sorted(set(_to_move(root, findings, young_seconds))):
            target = root / QUARANTINE / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists():
                target = target.with_name(f"{target.stem}.{new_id()}{target.suffix}")
            shutil.move(path, target)
            moved.append(str(path.relative_to(root)))
    return moved


def _to_move(root: Path, findings: Sequence[Finding], young_seconds: float) -> Iterator[Path]:
    for finding in findings:
        path = root / finding.path
        if finding.kind in ("leftover", "orphan") and not _is_old(path, young_seconds):
            continue
        if finding.kind in MOVED:
            yield from (each for each in (path, *_beside(root, path, finding)) if each.exists())
        elif finding.kind == "missing":
            yield from (each for each in _beside(root, path, finding) if each.exists())


def _beside(root: Path, path: Path, finding: Finding) -> Iterable[Path]:
    if finding.harmless or path.parent.name not in ("trials", *SIBLINGS):
        return ()
    return (root / folder / path.name for folder in ("trials", *SIBLINGS))


def _is_old(path: Path, young_seconds: float) -> bool:
    return path.exists() and time.time() - path.stat().st_mtime > young_seconds
