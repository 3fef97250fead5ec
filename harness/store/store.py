"""The results folder: trials with their windows and samples, environments and specs, written durably and read back."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from harness.identity import environment_id as name_environment
from harness.record import Fact, Sample, TrialRecord, Window
from harness.spec import UsageError
from harness.store import files, parquet
from harness.store.bundle import COMPACT, SIBLINGS, read_rows, read_sibling
from harness.store.columns import Columns, split_by_trial
from harness.store.finding import Finding
from harness.store.schema import to_rows, to_table

FOLDERS = ("trials", "steps", "telemetry", "environments", "specs")
TEXT_SEAL = b"# SHA-256 of the lines above: "


@dataclass(frozen=True)
class TrialFile:
    """What one file in trials/ holds."""

    signature: tuple[int, int, int]
    table: pa.Table | None
    records: tuple[TrialRecord, ...]
    finding: Finding | None = None


class Store:
    """A results folder. Files never change once they are there, so each one is read once in the life of a `Store`."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._trial_files: dict[str, TrialFile] = {}
        self._records: dict[str, TrialRecord] = {}
        self._homes: dict[str, str] = {}
        """By trial, the stem of the file that its row was taken from."""
        self._sibling_findings: dict[str, Finding] = {}
        self._compacted: dict[tuple[str, str], dict[str, Columns]] = {}

    # -------------------------------------------------------------------------------------------- writing

    def check_writable(self, needed_bytes: int = 16 << 20) -> None:
        """Make the folders and try them. Raises UsageError where nothing can be stored, before anything is measured."""
        with files.explained(self.root):
            for name in FOLDERS:
                folder = self.root / name
                files.make_folder(folder)
                probe = folder / f".probe.{os.getpid()}"
                probe.unlink(missing_ok=True)
                try:
                    files.write_new(probe, b"can this be written?")
                finally:
                    probe.unlink(missing_ok=True)
            status = os.statvfs(self.root / "trials")
        free_bytes = status.f_bavail * status.f_frsize
        if free_bytes < needed_bytes:
            raise UsageError(
                f"only {free_bytes / 1e6:.1f} MB are left for {self.root}, and results need {needed_bytes / 1e6:.0f} MB"
                " at least; free some space or give another folder"
            )

    def write_trial(self, record: TrialRecord, windows: Sequence[Window], samples: Sequence[Sample]) -> TrialRecord:
        """Store a trial: first its windows and samples, last the row that makes it exist. Returns the row as stored.

        Raises UsageError where the disk is full or read-only; then nothing of the trial is visible and nothing earlier
        was touched.
        """
        assert re.fullmatch(r"[\w-]+", record.trial_id), record.trial_id
        row_path = self._path("trials", record.trial_id)
        with files.explained(self.root):
            for name in ("trials", *SIBLINGS):
                files.make_folder(self.root / name)
            assert not row_path.exists(), f"trial {record.trial_id} is stored already"
            files.failpoint("trial.start")
            steps_sha256 = self._write_sibling("steps", record.trial_id, windows)
            telemetry_sha256 = self._write_sibling("telemetry", record.trial_id, samples)
            stored = dataclasses.replace(
                record,
                steps_sha256=steps_sha256,
                steps_rows=len(windows),
                telemetry_sha256=telemetry_sha256,
                telemetry_rows=len(samples),
            )
            files.write_new(row_path, parquet.encode("trials", to_table("trials", [stored])))
            files.failpoint("trial.row")
        return stored

    def write_environment(self, facts: Iterable[Fact]) -> str:
        """Store what is known of an environment; returns its name. The same facts are stored once."""
        table = to_table("environments", sorted(facts, key=lambda fact: fact.path))
        name = name_environment(to_rows(table, Fact))  # as they are read again, odd text made valid
        self._write_once(self._path("environments", name), parquet.encode("environments", table))
        return name

    def write_spec(self, spec_id: str, toml_text: str) -> None:
        """Store an experiment as it was asked, before any data; one that is there already stays as it is."""
        self._write_once(self.root / "specs" / f"{spec_id}.toml", seal_text(toml_text))

    def _write_once(self, path: Path, content: bytes) -> None:
        with files.explained(self.root):
            files.make_folder(path.parent)
            with contextlib.suppress(FileExistsError):  # named by its content
                files.write_new(path, content)

    def _write_sibling(self, folder: str, trial_id: str, rows: Sequence[Window] | Sequence[Sample]) -> str:
        """Write the rows of a trial; returns the SHA-256 of the file, empty if there are no rows."""
        if not rows:
            return ""
        assert all(row.trial_id == trial_id for row in rows), f"{folder}: rows of another trial than {trial_id}"
        content = parquet.encode(folder, to_table(folder, rows))
        path = self._path(folder, trial_id)
        try:
            files.write_new(path, content)
        except FileExistsError:
            path.unlink()  # of a write that died before its row: nothing refers to it
            files.write_new(path, content)
        files.failpoint(f"trial.{folder}")
        return hashlib.sha256(content).hexdigest()

    # -------------------------------------------------------------------------------------------- reading

    def trials(self, spec_id: str | None = None, *, session_id: str | None = None) -> list[TrialRecord]:
        """The trials in order of their ids, that is of time. Files that cannot be used are left out, see `problems`."""
        self._refresh()
        return [
            record
            for _, record in sorted(self._records.items())
            if spec_id in (None, record.spec_id) and session_id in (None, record.session_id)
        ]

    def windows(self, trial_ids: Iterable[str]) -> dict[str, Columns]:
        """The timed windows by trial and column; trials without any, or with a damaged file, are left out."""
        return self._siblings("steps", trial_ids)

    def samples(self, trial_ids: Iterable[str]) -> dict[str, Columns]:
        """The telemetry by trial and column; trials without any, or with a damaged file, are left out."""
        return self._siblings("telemetry", trial_ids)

    @property
    def problems(self) -> list[Finding]:
        """Files met so far that could not be used; `verify` looks at all of them."""
        rows = [each.finding for each in self._trial_files.values() if each.finding]
        return sorted([*rows, *self._sibling_findings.values()], key=lambda finding: finding.path)

    def environment(self, environment_id: str) -> list[Fact]:
        """The facts of an environment, sorted by path. Raises UsageError if it is not there or damaged."""
        path = self._path("environments", environment_id)
        try:
            return to_rows(parquet.decode("environments", parquet.load(path)), Fact)
        except FileNotFoundError:
            raise UsageError(f"{self.root} holds no environment {environment_id}") from None
        except parquet.Damaged as damage:
            raise UsageError(f"{path}: {damage.reason}") from None

    def specs(self) -> dict[str, str]:
        """The experiments asked so far, as TOML by spec id; damaged files are left out, `verify` names them."""
        found = {}
        for path in sorted((self.root / "specs").glob("s*.toml")):
            with contextlib.suppress(parquet.Damaged, FileNotFoundError):
                content = parquet.load(path)
                if text_is_sealed(content):
                    found[path.stem] = content.decode("utf-8")
        return found

    def spec(self, spec_id: str) -> str:
        """The TOML of one experiment. Raises UsageError if it is not there or altered."""
        specs = self.specs()
        if spec_id not in specs:
            raise UsageError(
                f"{self.root}/specs/{spec_id}.toml is missing or altered, so what its trials were to answer is lost; "
                "put the file back, or name another experiment"
            )
        return specs[spec_id]

    def find_spec(self, text: str) -> str:
        """The spec that `latest` or a prefix of at least 8 characters names. Raises UsageError for none or several."""
        known = self.specs()
        if text == "latest":
            ordered = [record.spec_id for record in self.trials() if record.spec_id in known]
            if not ordered:
                raise UsageError(f"{self.root} holds no trials yet, so there is no latest experiment")
            return ordered[-1]
        found = [spec_id for spec_id in known if len(text) >= 8 and spec_id.startswith(text)]
        if len(found) != 1:
            what = "several experiments" if found else "no experiment"
            raise UsageError(f"{self.root} holds {what} whose id begins with '{text}'; give 8 characters or more")
        return found[0]

    # -------------------------------------------------------------------------------------------- the row files

    def _path(self, folder: str, stem: str) -> Path:
        return self.root / folder / f"{stem}.parquet"

    def _refresh(self) -> None:
        """Read the files in trials/ that are new.

        Again if the folder has changed meanwhile: a listing taken while a compaction runs may miss both a file that was
        merged and the file it was merged into.
        """
        for _ in range(10):
            try:
                self._read_new_files()
                if self._trial_files.keys() == set(stems(self.root / "trials")):
                    break
            except FileNotFoundError:
                continue
            except PermissionError as error:
                raise UsageError(f"results cannot be read from {self.root}: {error.strerror}") from error
        self._records, self._homes = {}, {}
        for stem in sorted(self._trial_files, key=lambda stem: (stem.startswith(COMPACT), stem)):
            for record in self._trial_files[stem].records:
                self._records[record.trial_id] = record
                self._homes[record.trial_id] = stem

    def _read_new_files(self) -> None:
        seen: set[str] = set()
        for entry in _parquet_files(self.root / "trials"):
            stem = entry.name.removesuffix(".parquet")
            signature = _signature(entry)
            seen.add(stem)
            if stem not in self._trial_files or self._trial_files[stem].signature != signature:
                self._trial_files[stem] = self._read_trial_file(Path(entry.path), signature)
        for stem in self._trial_files.keys() - seen:
            del self._trial_files[stem]

    def _read_trial_file(self, path: Path, signature: tuple[int, int, int]) -> TrialFile:
        try:
            table = read_rows(self.root, path.stem)
            return TrialFile(signature, table, tuple(to_rows(table, TrialRecord)))
        except parquet.Damaged as damage:
            return TrialFile(signature, None, (), Finding.of(path.relative_to(self.root), damage))

    # -------------------------------------------------------------------------------------------- the sibling files

    def _siblings(self, folder: str, trial_ids: Iterable[str]) -> dict[str, Columns]:
        wanted = list(trial_ids)
        if any(trial_id not in self._records for trial_id in wanted):
            self._refresh()
        found = self._read_siblings(folder, wanted)
        if any(finding.kind == "missing" for finding in self._sibling_findings.values()):
            self._sibling_findings.clear()  # a compaction may have taken files away since the rows were read
            self._refresh()
            found = self._read_siblings(folder, wanted)
        return found

    def _read_siblings(self, folder: str, trial_ids: Iterable[str]) -> dict[str, Columns]:
        found: dict[str, Columns] = {}
        for trial_id in trial_ids:
            home = self._homes.get(trial_id)
            if home is None:
                continue
            try:
                columns = self._read_sibling(folder, home).get(trial_id)
            except parquet.Damaged as damage:
                path = f"{folder}/{home}.parquet"
                self._sibling_findings[path] = Finding.of(Path(path), damage)
                continue
            if columns is not None:
                found[trial_id] = columns
        return found

    def _read_sibling(self, folder: str, stem: str) -> Mapping[str, Columns]:
        """The rows beside one file of trials, by trial; those of compact files are kept."""
        if (folder, stem) in self._compacted:
            return self._compacted[folder, stem]
        rows = self._trial_files[stem].table
        table = read_sibling(self.root, folder, stem, rows) if rows is not None else None
        split = {} if table is None else dict(split_by_trial(folder, table))
        if stem.startswith(COMPACT):
            self._compacted[folder, stem] = split
        return split


def _signature(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    """What changes when a file does; raises FileNotFoundError where it is gone."""
    try:
        status = entry.stat()
    except OSError:  # perhaps a link that leads nowhere, or to itself
        status = entry.stat(follow_symlinks=False)
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _parquet_files(folder: Path) -> Iterator[os.DirEntry[str]]:
    if folder.is_dir():
        with os.scandir(folder) as entries:
            yield from (each for each in entries if each.name.endswith(".parquet") and not each.name.startswith("."))


def seal_text(text: str) -> bytes:
    """A spec's file: the TOML, and a comment with its SHA-256, so that `verify` notices a change."""
    content = text.encode("utf-8").rstrip(b"\n") + b"\n"
    return content + TEXT_SEAL + hashlib.sha256(content).hexdigest().encode() + b"\n"


def text_is_sealed(content: bytes) -> bool:
    """Whether a spec's file is as it was written."""
    text, mark, _ = content.rpartition(TEXT_SEAL)
    return bool(mark) and seal_text(text.decode("utf-8", "replace")) == content


def stems(folder: Path, beginning: str = "") -> Collection[str]:
    """The names of the Parquet files in a folder, without the ending."""
    names = [each.name for each in _parquet_files(folder)]
    return sorted(name.removesuffix(".parquet") for name in names if name.startswith(beginning))
