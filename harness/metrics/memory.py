"""Metrics of memory, over the timed part unless the name says another; the largest rank's where there are several."""

from __future__ import annotations

from harness.metrics.types import Metric, WindowTable, from_record
from harness.record import TrialRecord


def peak_memory(record: TrialRecord, kept: WindowTable) -> float | None:
    """What limits the batch: torch's allocated device bytes on a GPU, resident memory on a CPU."""
    value = record.peak_host_bytes if record.peak_allocated_bytes is None else record.peak_allocated_bytes
    return None if value is None else float(value)


def memory_utilization(record: TrialRecord, kept: WindowTable) -> float | None:
    """Allocated over reserved bytes at their peaks."""
    if record.peak_allocated_bytes is None or not record.peak_reserved_bytes:
        return None
    return record.peak_allocated_bytes / record.peak_reserved_bytes


MEMORY = (
    Metric(
        id="peak_memory",
        unit="bytes",
        better="lower",
        summary="peak of allocated device bytes on a GPU, of resident memory on a CPU",
        compute=peak_memory,
        exact=True,
    ),
    Metric(
        id="peak_allocated",
        unit="bytes",
        better="lower",
        summary="peak of torch's allocated device bytes",
        compute=from_record("peak_allocated_bytes"),
        exact=True,
        cuda=True,
    ),
    Metric(
        id="peak_reserved",
        unit="bytes",
        better="lower",
        summary="peak of torch's reserved device bytes",
        compute=from_record("peak_reserved_bytes"),
        exact=True,
        cuda=True,
    ),
    Metric(
        id="peak_device",
        unit="bytes",
        better="lower",
        summary="peak device memory of the process, by the driver",
        compute=from_record("peak_device_bytes"),
        exact=True,
        cuda=True,
    ),
    Metric(
        id="peak_host",
        unit="bytes",
        better="lower",
        summary="peak resident memory",
        compute=from_record("peak_host_bytes"),
        exact=True,
    ),
    *(
        Metric(
            id=f"peak_memory_{phase}",
            unit="bytes",
            better="lower",
            summary=f"the same as peak_memory, of the {words} alone",
            compute=from_record(f"peak_{phase}_bytes"),
            exact=True,
        )
        for phase, words in (("build", "build"), ("first_step", "first step"), ("warm_up", "warm-up"))
    ),
    Metric(
        id="memory_utilization",
        unit="1",
        better="higher",
        summary="allocated over reserved bytes at their peaks",
        compute=memory_utilization,
        exact=True,
        cuda=True,
    ),
    Metric(
        id="alloc_retries",
        unit="count",
        better="lower",
        summary="allocations of the timed part that had to free cached memory first",
        compute=from_record("alloc_retries"),
        exact=True,
        cuda=True,
    ),
    Metric(
        id="alloc_time",
        unit="ns",
        better="lower",
        summary="host time to allocate a tensor of 1 KiB to 16 MiB and give it back, after the windows",
        compute=from_record("allocation_ns"),
        needs="a torch workload",
    ),
)
