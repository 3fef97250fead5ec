"""One file of a results folder that is not as it should be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.store.parquet import Damaged


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
        return cls(path=str(path), kind=damage.kind, reason=damage.reason)

    @property
    def harmless(self) -> bool:
        """Whether every result can still be read."""
        return self.kind in ("leftover", "orphan", "duplicate", "foreign")
