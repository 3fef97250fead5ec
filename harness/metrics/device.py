"""Metrics of how busy the processor and the device were; descriptive, never a verdict's ground."""

from __future__ import annotations

from harness.metrics.types import Metric, WindowTable, from_record, total
from harness.record import TrialRecord


def enqueue_share(record: TrialRecord, kept: WindowTable) -> float | None:
    """Host's time to issue the work over the windows' time; near 1 the host is the limit."""
    issued, time = total(kept, "enqueue_ns"), total(kept, "host_ns")
    return record.enqueue_share if issued is None or not time else issued / time


def energy_per_step(record: TrialRecord, kept: WindowTable) -> float | None:
    """Energy of the timed part over all its steps: the counter knows nothing of the steady cut."""
    return None if record.energy_mj is None or not record.step_count else record.energy_mj / record.step_count


def power(record: TrialRecord, kept: WindowTable) -> float | None:
    """Mean power of the timed part."""
    return None if record.energy_mj is None or not record.timed_ns else record.energy_mj / record.timed_ns * 1e9


COUNTERS = "a GPU with performance counters that NVML reads (Hopper and later)"

DEVICE = (
    Metric(
        id="enqueue_share",
        unit="1",
        better="lower",
        summary="host's issue time over the windows' time; near 1 = host-bound",
        compute=enqueue_share,
        cuda=True,
    ),
    Metric(
        id="device_busy",
        unit="1",
        better="higher",
        summary="share of a profiled step in which some kernel or copy ran",
        compute=from_record("device_busy"),
        cuda=True,
    ),
    Metric(
        id="cpu_utilization",
        unit="1",
        better="none",
        summary="CPU time of the child's processes over wall time and allowed cores",
        compute=from_record("cpu_utilization"),
    ),
    Metric(
        id="gpu_utilization",
        unit="1",
        better="none",
        summary="driver's utilization: some kernel ran in the last 1/6 to 1 s",
        compute=from_record("gpu_utilization"),
        cuda=True,
    ),
    Metric(
        id="sm_activity",
        unit="1",
        better="higher",
        summary="share of time with work on the multiprocessors, mean over them",
        compute=from_record("sm_activity"),
        cuda=True,
        needs=COUNTERS,
    ),
    Metric(
        id="tensor_activity",
        unit="1",
        better="higher",
        summary="share of time in which the tensor cores were active",
        compute=from_record("tensor_activity"),
        cuda=True,
        needs=COUNTERS,
    ),
    Metric(
        id="dram_activity",
        unit="1",
        better="higher",
        summary="use of the device memory's bandwidth",
        compute=from_record("dram_activity"),
        cuda=True,
        needs=COUNTERS,
    ),
    Metric(
        id="energy_per_step",
        unit="mJ",
        better="lower",
        summary="growth of the boards' energy counters over the timed part, by its steps",
        compute=energy_per_step,
        cuda=True,
    ),
    Metric(
        id="power",
        unit="mW",
        better="lower",
        summary="the same by time",
        compute=power,
        cuda=True,
    ),
)
