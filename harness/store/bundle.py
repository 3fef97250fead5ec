"""All that one stem holds, a row file with the tables beside it, read whole and checked against one another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from harness.store import parquet
from harness.store.parquet import Damaged

SIBLINGS = ("steps", "telemetry")
COMPACT = "compact-"
"""How the name of a file begins that holds many trials; its siblings bear the same name."""


@dataclass(frozen=True)
class Bundle:
    """The trials of one file in trials/, and of its siblings."""

    stem: str
    trials: pa.Table
    siblings: dict[str, pa.Table]
    """By folder; a folder without rows is left out."""

    @property
    def trial_ids(self) -> frozenset[str]:
        return trial_ids(self.trials)

    def without(self, others: frozenset[str]) -> Bundle:
        """The same without some trials."""
        siblings = {folder: _without(table, others) for folder, table in self.siblings.items()}
        return Bundle(self.stem, _without(self.trials, others), siblings)


def trial_ids(table: pa.Table) -> frozenset[str]:
    """The trials that a table holds rows of."""
    return frozenset(table.column("trial_id").to_pylist())


def _without(table: pa.Table, others: frozenset[str]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table.column("trial_id"), pa.array(sorted(others)))))


def read_rows(root: Path, stem: str) -> pa.Table:
    """The rows of one file in trials/. Raises `Damaged`, also where the file does not hold what its name says."""
    table = parquet.decode("trials", parquet.load(root / "trials" / f"{stem}.parquet"))
    if not stem.startswith(COMPACT) and table.column("trial_id").to_pylist() != [stem]:
        raise Damaged("altered", "a file that holds another trial than its name says")
    return table


def read_sibling(root: Path, folder: str, stem: str, trials: pa.Table) -> pa.Table | None:
    """The table beside `trials`, None if they have no rows there.

    Raises `Damaged` where it is missing, or is not the one that was written with the rows: by SHA-256 and row counts.
    """
    counts = dict(zip(trials.column("trial_id").to_pylist(), trials.column(f"{folder}_rows").to_pylist(), strict=True))
    expected = {trial_id: rows for trial_id, rows in counts.items() if rows}
    if not expected:
        return None
    try:
        content = parquet.load(root / folder / f"{stem}.parquet")
    except FileNotFoundError:
        raise Damaged("missing", f"a row of trials/{stem}.parquet refers to this file, which is not there") from None
    table = parquet.decode(folder, content)
    if hashlib.sha256(content).hexdigest() != _expected_sha256(folder, stem, trials):
        raise Damaged("altered", f"not the file that was written with trials/{stem}.parquet")
    found = {each["values"]: each["counts"] for each in pc.value_counts(table.column("trial_id")).to_pylist()}
    if found != expected:
        raise Damaged("altered", f"not the rows that trials/{stem}.parquet counts")
    return table


def read_bundle(root: Path, stem: str) -> Bundle:
    """A row file and its siblings, all checked. Raises `Damaged` or FileNotFoundError."""
    trials = read_rows(root, stem)
    tables = {folder: read_sibling(root, folder, stem, trials) for folder in SIBLINGS}
    return Bundle(stem, trials, {folder: table for folder, table in tables.items() if table is not None})


def _expected_sha256(folder: str, stem: str, trials: pa.Table) -> str:
    """A trial's row carries the SHA-256 of its siblings; a compact file carries that of its own in its metadata."""
    if stem.startswith(COMPACT):
        marks: dict[bytes, bytes] = trials.schema.metadata
        return marks.get(f"harness.{folder}_sha256".encode(), b"").decode()
    return str(trials.column(f"{folder}_sha256")[0])
