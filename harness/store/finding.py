"""One file of a results folder that is not as it should be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.store.parquet import Damaged

OURS = re.compile(r"(compact-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|n[0-9a-f]{64}")
"""The stems that a harness gives to Parquet files: ids of trials, of compact files and of environments."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One file that is not as it should be, and why."""

    path: str
    """Relative to the results folder."""
    kind: str
    """leftover, orphan, duplicate, foreign: harmless; empty, truncated, altered, unreadable, missing, newer: a loss."""
    reason: str

    @classmethod
    def of(cls, path: Path, damage: Damaged) -> Finding:
        """The finding of a damaged file. What bears one of our names was ours, whatever it holds: a loss."""
        if damage.kind == "foreign" and OURS.fullmatch(path.stem):
            return cls(path=str(path), kind="altered", reason=f"the content was replaced: {damage.reason}")
        return cls(path=str(path), kind=damage.kind, reason=damage.reason)

    @property
    def harmless(self) -> bool:
        """Whether every result can still be read."""
        return self.kind in ("leftover", "orphan", "duplicate", "foreign")
