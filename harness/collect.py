"""Joins what the ranks of a launch say into one row: the slowest rank's time, the largest memory, the global work."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

from harness.arms import format_arm
from harness.launch import Launched
from harness.record import ChildRecord, Outcome, Sample, TrialRecord, Window
from harness.spec import Trial
from harness.telemetry import shares

BY_RANK = (
    "rank", "items_per_step", "loss_after", "peak_host_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
    "peak_device_bytes", "comm_bytes", "comm_ns",
)  # fmt: skip
"""What is kept of each rank beside the row's total, maximum or mean."""


@dataclass(frozen=True, kw_only=True)
class SessionIds:
    """The ids that all trials of a session share."""

    base_env_id: str
    hardware_id: str
    machine_id: str
    environment_id: str
    device: str
    cores: int


def collect(
    trial: Trial, launched: Launched, ids: SessionIds, code_id: str, attempt: int
) -> tuple[TrialRecord, list[Window]]:
    """The row of a trial and its windows."""
    record = replace(asked(trial, ids, code_id), attempt=attempt)
    record.outcome, record.reason = launched.outcome, launched.reason
    record.started_at, record.duration_ns = launched.started_at, launched.duration_ns
    record.stderr_tail = launched.stderr_tail
    ranks = launched.ranks
    windows = [window for rank in ranks for window in rank.windows]
    if not ranks:
        return record, windows
    _fill_startup(record, ranks)
    _fill_parts(record, ranks)
    _fill_proof(record, ranks)
    if windows:
        _fill_time(record, windows)
        _fill_work(record, ranks)
        _fill_memory(record, ranks)
        _fill_ranks(record, ranks)
        _fill_load(record, ranks, launched.samples, ids.cores)
        if record.outcome is Outcome.OK and record.steps_performed not in (None, record.steps_asked):
            record.outcome = Outcome.NOT_COMPARABLE
            record.reason = f"{record.steps_performed} of {record.steps_asked} steps were performed in the windows"
    return record, windows


def asked(trial: Trial, ids: SessionIds, code_id: str) -> TrialRecord:
    """The columns that are known before anything ran."""
    cell = trial.cell
    return TrialRecord(
        trial_id=trial.trial_id,
        spec_id=trial.spec_id,
        session_id=trial.session_id,
        block_index=trial.block_index,
        position=trial.position,
        cell_id=trial.cell_id,
        code_id=code_id,
        base_env_id=ids.base_env_id,
        hardware_id=ids.hardware_id,
        machine_id=ids.machine_id,
        environment_id=ids.environment_id,
        workload=cell.workload,
        params_json=to_json(dict(cell.params)),
        preset=cell.preset,
        mode=cell.mode,
        input=cell.input,
        data_digest=cell.data_digest,
        arm=format_arm(cell.arm),
        is_baseline=trial.is_baseline,
        kind=str(cell.kind),
        rank_count=trial.rank_count,
        device=ids.device,
        seed=trial.seed,
        measure_json=to_json({name: getattr(cell.measure, name) for name in cell.measure.__dataclass_fields__}),
    )


def to_json(value: Any) -> str:
    """JSON with sorted keys; what JSON cannot say (a dtype, a path) as text."""
    return json.dumps(value, sort_keys=True, default=str)


def _fill_startup(record: TrialRecord, ranks: Sequence[ChildRecord]) -> None:
    for name in ("import", "build", "first_step", "compile", "total"):
        field = f"startup_{name}_ns"
        setattr(record, field, _over(max, ranks, field))
    record.items_per_step = _over(sum, ranks, "items_per_step")


def _fill_parts(record: TrialRecord, ranks: Sequence[ChildRecord]) -> None:
    """What was measured beside the windows: of several ranks the largest; equal bits only where all say so."""
    first = ranks[0]
    record.step_kind, record.product_dtype = first.step_kind, first.product_dtype
    record.steps_per_epoch, record.device_busy = first.steps_per_epoch, _over(mean, ranks, "device_busy")
    for name in first.afterwards:
        values = [rank.afterwards[name] for rank in ranks if rank.afterwards.get(name) is not None]
        if values:
            setattr(record, name, min(values) if isinstance(values[0], bool) else max(values))
    missing = {name: reason for rank in ranks for name, reason in rank.not_measured.items()}
    record.not_measured_json = to_json(missing) if missing else None


def _fill_proof(record: TrialRecord, ranks: Sequence[ChildRecord]) -> None:
    first = ranks[0]
    record.evidence_json, record.already_so_json = to_json(first.evidence), to_json(first.already_so)
    record.facts_json = to_json(first.facts)
    record.numerics_json = None if first.numerics is None else to_json(first.numerics)


def _fill_time(record: TrialRecord, windows: Sequence[Window]) -> None:
    slowest = slowest_rank(windows)
    per_step = [window.host_ns / window.step_count for window in slowest]
    record.raw_median_window_ns, record.raw_mean_window_ns = float(median(per_step)), float(mean(per_step))
    record.step_count = sum(window.step_count for window in slowest)
    device = [window.device_ns / window.step_count for window in slowest if window.device_ns is not None]
    record.raw_median_device_ns = float(median(device)) if device else None
    waits = [window.data_wait_ns / window.step_count for window in slowest if window.data_wait_ns is not None]
    record.data_wait_ns = float(median(waits)) if waits else None
    shares = [window.enqueue_ns / window.host_ns for window in slowest if window.enqueue_ns is not None]
    record.enqueue_share = float(median(shares)) if shares else None


def slowest_rank(windows: Sequence[Window]) -> list[Window]:
    """For each window index, the rank that took longest: the others waited for it."""
    slowest: dict[int, Window] = {}
    for window in windows:
        held = slowest.get(window.window_index)
        if held is None or window.host_ns > held.host_ns:
            slowest[window.window_index] = window
    return [slowest[index] for index in sorted(slowest)]


def _fill_work(record: TrialRecord, ranks: Sequence[ChildRecord]) -> None:
    record.steps_asked = _over(min, ranks, "steps_asked")
    record.steps_performed = _over(min, ranks, "steps_performed")
    record.skipped_steps = _over(max, ranks, "skipped_steps")
    record.loss_before = _over(mean, ranks, "loss_before")
    record.loss_after = _over(mean, ranks, "loss_after")


def _fill_memory(record: TrialRecord, ranks: Sequence[ChildRecord]) -> None:
    for field in (
        "peak_host_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "peak_device_bytes",
        "peak_build_bytes", "peak_first_step_bytes", "peak_warm_up_bytes", "alloc_retries",
    ):  # fmt: skip
        setattr(record, field, _over(max, ranks, field))


def _fill_ranks(record: TrialRecord, ranks: Sequence[ChildRecord]) -> None:
    record.comm_bytes, record.comm_ns = _over(max, ranks, "comm_bytes"), _over(max, ranks, "comm_ns")
    if len(ranks) > 1:
        record.ranks_json = to_json([{name: getattr(rank, name) for name in BY_RANK} for rank in ranks])


def _fill_load(record: TrialRecord, ranks: Sequence[ChildRecord], samples: Sequence[Sample], cores: int) -> None:
    started, ended = _over(min, ranks, "started_monotonic_ns"), _over(max, ranks, "ended_monotonic_ns")
    busy = _over(sum, ranks, "cpu_busy_ns")
    if started is None or ended is None or ended <= started:
        return
    if busy is not None:
        record.cpu_utilization = busy / (ended - started) / cores
    record.timed_ns = ended - started
    seen = shares(samples, started, ended, cores)
    record.energy_mj, record.sm_activity = seen.energy_mj, seen.sm_activity
    record.tensor_activity, record.dram_activity = seen.tensor_activity, seen.dram_activity
    record.steal_share, record.foreign_cpu_share = seen.steal_share, seen.foreign_cpu_share
    record.gpu_utilization = seen.gpu_utilization
    if seen.gpu_utilization is None:
        record.gpu_utilization_reason = "no GPU is measured" if record.device == "cpu" else "NVML gave no utilization"


def _over(fold: Callable[[list[Any]], Any], ranks: Sequence[ChildRecord], field: str) -> Any:
    """Fold one field over the ranks that have it; None where none has."""
    values = [value for rank in ranks if (value := getattr(rank, field)) is not None]
    return fold(values) if values else None
