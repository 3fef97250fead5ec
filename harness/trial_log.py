"""What is known of the trials of a session's experiment: those that the store held already, and those made since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.plan import Place
from harness.record import TrialRecord
from harness.spec import Kind

RECENT = 20
"""So many of the last trials say how long a trial takes."""


@dataclass
class TrialLog:
    """Every attempt that counts for the present work, in the order in which they were measured."""

    is_at: Callable[[TrialRecord, Place], bool]
    """Whether a trial belongs to a place."""
    records: list[TrialRecord] = field(default_factory=list)

    def newest_first(self, place: Place, arm: str | None = None) -> Iterator[TrialRecord]:
        """The trials at a place, of one arm or of all."""
        return (each for each in reversed(self.records) if arm in (None, each.arm) and self.is_at(each, place))

    def last_timed(self, place: Place, arm: str) -> TrialRecord | None:
        """The arm's last trial in a block, however it ended."""
        return next((each for each in self.newest_first(place, arm) if each.block_index is not None), None)

    def preparation(self, place: Place, arm: str) -> TrialRecord | None:
        """The arm's last untimed trial, however it ended."""
        return next((each for each in self.newest_first(place, arm) if each.kind == Kind.PREPARE), None)

    def numerics(self, place: Place, arm: str) -> TrialRecord | None:
        """The arm's last numerics trial that came to an end."""
        done = (each for each in self.newest_first(place, arm) if each.kind == Kind.NUMERICS and each.numerics_json)
        return next(done, None)

    def has_skip(self, place: Place, arm: str) -> bool:
        """Whether it is written down that the arm is not measured here."""
        return any(each.is_skip for each in self.newest_first(place, arm))

    def next_block(self, place: Place) -> int:
        """The next block after all earlier ones, even, so that the orders stay paired."""
        indices = [each.block_index for each in self.newest_first(place) if each.block_index is not None]
        return (max(indices, default=-1) + 2) // 2 * 2

    def is_complete(self, place: Place, block: int, positions: int) -> bool:
        """Whether one session has finished every position of the block, whatever the outcomes were."""
        done: dict[str, set[int]] = {}
        for record in self.newest_first(place):
            if record.block_index == block and record.position is not None:
                done.setdefault(record.session_id, set()).add(record.position)
        return any(each >= set(range(positions)) for each in done.values())

    def expected_s(self, place: Place, arm: str) -> float:
        """How many seconds a trial takes: as its arm's latest, or as the place's latest, or unknown and so 0."""
        for which in (arm, None):
            for record in self.newest_first(place, which):
                if record.duration_ns:
                    return record.duration_ns / 1e9
        return 0.0

    def typical_s(self) -> float | None:
        """Mean seconds of the last trials, of whatever kind; None before the first."""
        seconds = [each.duration_ns / 1e9 for each in self.records if each.duration_ns][-RECENT:]
        return sum(seconds) / len(seconds) if seconds else None

    def measured(self) -> int:
        """How many trials took any time."""
        return sum(record.duration_ns is not None for record in self.records)

    def last_attempts(self) -> list[TrialRecord]:
        """The trials that no later try of the same place in a block, or of the same arm's preparation, replaced."""
        last: dict[tuple[Any, ...], TrialRecord] = {}
        for each in self.records:
            last[each.workload, each.params_json, each.kind, each.arm, each.block_index, each.position] = each
        return list(last.values())
