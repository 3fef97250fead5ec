"""Which stored trials a judgement is made of: the latest work, not what later code or environments superseded."""

from __future__ import annotations

from collections.abc import Sequence

from harness.record import TrialRecord


def latest_work(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """For each workload, parameters, arm and hardware class: the trials of the code and environment measured last.

    Earlier ones stay stored; `harness status` says what superseded them.
    """
    latest: dict[tuple[str, ...], tuple[str, str]] = {}
    for record in sorted(trials, key=lambda record: record.trial_id):
        latest[_what(record)] = _under(record)
    return [record for record in trials if latest[_what(record)] == _under(record)]


def _what(record: TrialRecord) -> tuple[str, ...]:
    return (record.spec_id, record.workload, record.params_json, record.arm, record.hardware_id)


def _under(record: TrialRecord) -> tuple[str, str]:
    return (record.code_id, record.base_env_id)
