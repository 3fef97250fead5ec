"""The sessions of an experiment, all of them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.judge.types import SessionSummary
from harness.record import FAILURES, Outcome, TrialRecord
from harness.spec import Kind


def history(counting: Sequence[TrialRecord], superseded: Sequence[TrialRecord]) -> tuple[SessionSummary, ...]:
    """Every session of the trials that count and of those that later work superseded, oldest first."""
    counts = {record.trial_id for record in counting}
    sessions: dict[str, list[TrialRecord]] = {}
    for record in sorted((*counting, *superseded), key=lambda record: (record.started_at, record.trial_id)):
        sessions.setdefault(record.session_id, []).append(record)
    return tuple(_summary(session_id, records, counts) for session_id, records in sessions.items())


def _summary(session_id: str, records: Sequence[TrialRecord], counts: set[str]) -> SessionSummary:
    timed = [record for record in records if record.kind == Kind.TIMING and record.block_index is not None]
    starts = [record.started_at for record in records if record.started_at]
    return SessionSummary(
        session_id=session_id,
        started_at=min(starts, default=""),
        ended_at=max(starts, default=""),
        blocks=len({(record.workload, record.params_json, record.block_index) for record in timed}),
        trials=len(records),
        failed=sum(record.outcome in FAILURES for record in records),
        counted=sum(record.outcome is Outcome.OK and record.trial_id in counts for record in timed),
    )
