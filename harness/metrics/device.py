"""Metrics of how busy the processor and the device were; descriptive, never a verdict's ground."""

from __future__ import annotations

from harness.metrics.types import Metric, WindowTable, from_record, total
from harness.record import TrialRecord


def enqueue_share(record: TrialRecord, kept: WindowTable) -> float | None:
    """Host's time to issue the work over the windows' time; near 1 the host is the limit."""
    issued, time = total(kept, "enqueue_ns"), total(kept, "host_ns")
    return record.enqueue_share if issued is None or not time else issued / time


DEVICE = (
    Metric(
        id="enqueue_share",
        unit="1",
        better="lower",
        summary="host's issue time over the windows' time; near 1 = host-bound",
        compute=enqueue_share,
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
    ),
)
