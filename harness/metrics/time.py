"""Metrics of time: the step, its parts, throughput, waiting for data, latency, start-up."""

from __future__ import annotations

import json
from typing import Any

from harness.metrics.types import Compute, Metric, WindowTable, from_record, total
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


def epoch_time(record: TrialRecord, kept: WindowTable) -> float | None:
    """The typical pass over all the data, where the windows are passes."""
    step = step_time(record, kept)
    return None if step is None or record.steps_per_epoch is None else step * record.steps_per_epoch


def loader_throughput(record: TrialRecord, kept: WindowTable) -> float | None:
    """Throughput of a workload whose step is a batch loaded, and nothing else."""
    return throughput(record, kept) if record.step_kind == "load" else None


def part_throughput(part: str) -> Compute:
    """Items a second of one of the parts that a workload names."""

    def compute(record: TrialRecord, kept: WindowTable) -> float | None:
        found = json.loads(record.parts_json or "{}").get(part)
        return found["items"] / found["ns"] * 1e9 if found and found["ns"] else None

    return compute


def latency(percentile: float) -> Compute:
    """A percentile over requests; None where there are too few of them to tell."""

    def compute(record: TrialRecord, kept: WindowTable) -> float | None:
        requests = _requests(record, kept)
        if requests is None or len(requests) * min(percentile, 100 - percentile) < 100:
            return None
        import numpy

        return float(numpy.percentile(requests, percentile))

    return compute


def latency_jitter(record: TrialRecord, kept: WindowTable) -> float | None:
    """Standard deviation of the requests' times over their mean."""
    requests = _requests(record, kept)
    return None if requests is None or len(requests) < 2 else float(requests.std(ddof=1) / requests.mean())


def _requests(record: TrialRecord, kept: WindowTable) -> Any:
    """The time of every request; None where steps were not timed one by one."""
    return kept["host_ns"] if len(kept.get("host_ns", ())) and record.protocol == "requests" else None


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
        cuda=True,
    ),
    Metric(
        id="throughput",
        unit="items/s",
        better="higher",
        summary="units of work (images, tokens) a second over all ranks, from the mean step",
        compute=throughput,
    ),
    Metric(
        id="epoch_time",
        unit="ns",
        better="lower",
        summary="typical pass over all the data, the start of loader workers included",
        compute=epoch_time,
        needs='[measure] protocol = "epochs"',
    ),
    Metric(
        id="loader_throughput",
        unit="items/s",
        better="higher",
        summary="units of work a second that the input pipeline gives with nothing behind it",
        compute=loader_throughput,
        needs="a workload without a model",
    ),
    Metric(
        id="sample_time",
        unit="ns",
        better="lower",
        summary="one item of the dataset, made in the trial's own process",
        compute=from_record("sample_ns"),
        needs="a map-style dataset",
    ),
    Metric(
        id="decode_time",
        unit="ns",
        better="lower",
        summary="of it, what remains without the dataset's transform: reading and decoding",
        compute=from_record("decode_ns"),
        needs="a dataset with a transform",
    ),
    Metric(
        id="data_wait",
        unit="1",
        better="lower",
        summary="share of the time spent waiting for the next batch",
        compute=data_wait,
        needs="loader input",
    ),
    Metric(
        id="forward_time",
        unit="ns",
        better="lower",
        summary="forward pass of one batch, measured apart from the windows",
        compute=from_record("forward_ns"),
        needs="a workload with a model",
    ),
    Metric(
        id="backward_time",
        unit="ns",
        better="lower",
        summary="the same of the backward pass",
        compute=from_record("backward_ns"),
        needs="training",
    ),
    Metric(
        id="optimizer_time",
        unit="ns",
        better="lower",
        summary="the same of the optimizer's step",
        compute=from_record("optimizer_ns"),
        needs="training",
    ),
    Metric(
        id="prefill_throughput",
        unit="tokens/s",
        better="higher",
        summary="tokens of the prompts a second, measured apart from the windows",
        compute=part_throughput("prefill"),
        needs="a workload that names the part",
    ),
    Metric(
        id="decode_throughput",
        unit="tokens/s",
        better="higher",
        summary="tokens written a second, likewise",
        compute=part_throughput("decode"),
        needs="a workload that names the part",
    ),
    Metric(
        id="latency_p50",
        unit="ns",
        better="lower",
        summary="median request, each waited for before the next",
        compute=latency(50),
        needs='[measure] protocol = "requests"',
    ),
    Metric(
        id="latency_p99",
        unit="ns",
        better="lower",
        summary="99th percentile of the requests; at least 100 of them",
        compute=latency(99),
        needs='[measure] protocol = "requests"',
    ),
    Metric(
        id="latency_jitter",
        unit="1",
        better="lower",
        summary="standard deviation of the requests' times over their mean",
        compute=latency_jitter,
        needs='[measure] protocol = "requests"',
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
        summary="of it, time reported by the compiler, its cache cold or warm as [measure] compile_cache says",
        compute=from_record("startup_compile_ns"),
        needs="an arm that compiles",
    ),
    Metric(
        id="time_to_100_steps",
        unit="ns",
        better="lower",
        summary="start-up and a hundred mean steps",
        compute=time_to_100_steps,
    ),
)
