"""Metrics of time: the step, throughput, waiting for data, start-up."""

from __future__ import annotations

from harness.metrics.types import Metric, WindowTable, from_record, total
from harness.record import TrialRecord


def step_time(record: TrialRecord, kept: WindowTable) -> float | None:
    """The typical step: median over windows of time per step."""
    return _median_per_step(kept, "host_ns")


def step_time_mean(record: TrialRecord, kept: WindowTable) -> float | None:
    """The mean step: all time over all steps."""
    time, steps = total(kept, "host_ns"), total(kept, "step_count")
    return None if time is None or not steps else time / steps


def step_time_device(record: TrialRecord, kept: WindowTable) -> float | None:
    """The typical step on the device, gaps included; a CPU has none."""
    return None if total(kept, "device_ns") is None else _median_per_step(kept, "device_ns")


def throughput(record: TrialRecord, kept: WindowTable) -> float | None:
    """Units of work per second: items of a step over the mean step."""
    mean = step_time_mean(record, kept)
    return None if mean is None or record.items_per_step is None else record.items_per_step / mean * 1e9


def data_wait(record: TrialRecord, kept: WindowTable) -> float | None:
    """Share of the time spent waiting for the next batch."""
    waited, time = total(kept, "data_wait_ns"), total(kept, "host_ns")
    return None if waited is None or not time else waited / time


def time_to_100_steps(record: TrialRecord, kept: WindowTable) -> float | None:
    """Process start to the hundredth step done: start-up and a hundred mean steps (the warm-up's are part of
    start-up).
    """
    mean = step_time_mean(record, kept)
    return None if mean is None or record.startup_total_ns is None else record.startup_total_ns + 100 * mean


def _median_per_step(kept: WindowTable, column: str) -> float | None:
    if column not in kept or len(kept[column]) == 0:
        return None
    import numpy

    return float(numpy.median(kept[column] / kept["step_count"]))


TIME = (
    Metric(
        id="step_time",
        unit="ns",
        better="lower",
        summary="typical step: median window, steady part",
        compute=step_time,
        per_step=True,
    ),
    Metric(
        id="step_time_mean",
        unit="ns",
        better="lower",
        summary="mean step of the steady part",
        compute=step_time_mean,
        per_step=True,
    ),
    Metric(
        id="step_time_device",
        unit="ns",
        better="lower",
        summary="typical step as elapsed on the device (spans gaps)",
        compute=step_time_device,
        per_step=True,
    ),
    Metric(
        id="throughput",
        unit="items/s",
        better="higher",
        summary="units of work (images, tokens) a second over all ranks, from the mean step",
        compute=throughput,
    ),
    Metric(
        id="data_wait",
        unit="1",
        better="lower",
        summary="share of the time spent waiting for the next batch",
        compute=data_wait,
    ),
    Metric(
        id="startup_time",
        unit="ns",
        better="lower",
        summary="process start to the first warm step done",
        compute=from_record("startup_total_ns"),
    ),
    Metric(
        id="startup_import",
        unit="ns",
        better="lower",
        summary="of it, interpreter start to torch and the workload imported",
        compute=from_record("startup_import_ns"),
    ),
    Metric(
        id="startup_build",
        unit="ns",
        better="lower",
        summary="of it, data, model, treatments and optimizer built",
        compute=from_record("startup_build_ns"),
    ),
    Metric(
        id="startup_first_step",
        unit="ns",
        better="lower",
        summary="of it, the first step, compilation included",
        compute=from_record("startup_first_step_ns"),
    ),
    Metric(
        id="compile_time",
        unit="ns",
        better="lower",
        summary="of it, time reported by the compiler",
        compute=from_record("startup_compile_ns"),
    ),
    Metric(
        id="time_to_100_steps",
        unit="ns",
        better="lower",
        summary="start-up and a hundred mean steps",
        compute=time_to_100_steps,
    ),
)
