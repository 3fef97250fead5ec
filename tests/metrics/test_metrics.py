"""Every metric by arithmetic done by hand, its unit and its direction."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from harness.metrics import METRICS, PRIMARY, SUMMARIES, measure
from harness.metrics.summaries import break_even_steps, oom_rate
from harness.record import Outcome, TrialRecord

KEPT = {
    "step_count": np.array([2.0, 2.0, 4.0]),
    "host_ns": np.array([20.0, 24.0, 80.0]),
    "device_ns": np.array([18.0, 20.0, 60.0]),
    "data_wait_ns": np.array([2.0, 2.0, 27.0]),
    "enqueue_ns": np.array([10.0, 12.0, 9.0]),
}
RECORD = TrialRecord(
    items_per_step=4.0, startup_total_ns=1000, startup_import_ns=500, startup_build_ns=300, startup_first_step_ns=150,
    startup_compile_ns=70, peak_host_bytes=10, cpu_utilization=0.5, loss_after=2.5, skipped_steps=0,
    peak_build_bytes=7, peak_first_step_bytes=8, peak_warm_up_bytes=9, alloc_retries=2, allocation_ns=2.5,
    steps_per_epoch=6, step_kind="load", sample_ns=11.0, decode_ns=6.0, forward_ns=3, backward_ns=6, optimizer_ns=1,
    parts_json='{"prefill": {"items": 8, "ns": 4}, "decode": {"items": 6, "ns": 12}}', bit_identical=True,
    flops_per_item=50.0, model_flops_per_item=45.0, device_busy=0.75, sm_activity=0.6, tensor_activity=0.3,
    dram_activity=0.2, gpu_utilization=0.9, energy_mj=400.0, timed_ns=2_000_000_000, step_count=20,
)  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("step_time", 12.0),  # 10, 12, 20
        ("step_time_mean", 124 / 8),
        ("step_time_device", 10.0),  # 9, 10, 15
        ("throughput", 4 / (124 / 8) * 1e9),
        ("data_wait", 31 / 124),
        ("enqueue_share", 31 / 124),
        ("time_to_100_steps", 1000 + 100 * 124 / 8),
        ("startup_time", 1000.0),
        ("startup_import", 500.0),
        ("startup_build", 300.0),
        ("startup_first_step", 150.0),
        ("compile_time", 70.0),
        ("peak_memory", 10.0),
        ("peak_host", 10.0),
        ("cpu_utilization", 0.5),
        ("loss_after", 2.5),
        ("skipped_steps", 0.0),
        ("epoch_time", 6 * 12.0),
        ("loader_throughput", 4 / (124 / 8) * 1e9),
        ("sample_time", 11.0),
        ("decode_time", 6.0),
        ("forward_time", 3.0),
        ("backward_time", 6.0),
        ("optimizer_time", 1.0),
        ("prefill_throughput", 2e9),
        ("decode_throughput", 0.5e9),
        ("peak_memory_build", 7.0),
        ("peak_memory_first_step", 8.0),
        ("peak_memory_warm_up", 9.0),
        ("alloc_retries", 2.0),
        ("alloc_time", 2.5),
        ("bit_identical", 1.0),
        ("flops", 50.0),
        ("device_busy", 0.75),
        ("sm_activity", 0.6),
        ("tensor_activity", 0.3),
        ("dram_activity", 0.2),
        ("gpu_utilization", 0.9),
        ("energy_per_step", 20.0),
        ("power", 200.0),  # 400 mJ in two seconds
    ],
)
def test_by_hand(metric: str, value: float) -> None:
    found = measure(metric, RECORD, KEPT)
    assert found is not None
    assert found.value == pytest.approx(value)
    assert found.unit == METRICS[metric].unit


def test_latency_is_of_single_requests_only() -> None:
    requests = {"step_count": np.ones(10_001), "host_ns": np.arange(10_001.0)}
    timed, waited_for = TrialRecord(), TrialRecord(measure_json='{"protocol": "requests"}')
    found = {name: measure(name, waited_for, requests) for name in METRICS if name.startswith("latency")}
    assert {name: value and value.value for name, value in found.items()} == {
        "latency_p50": 5_000.0,
        "latency_p99": 9_900.0,
        "latency_jitter": pytest.approx((10_001 * 10_002 / 12) ** 0.5 / 5_000),  # of evenly spaced numbers
    }
    assert {measure(name, timed, requests) for name in found} == {None}


def test_a_percentile_of_few_requests_is_unknown() -> None:
    record, few = (
        TrialRecord(measure_json='{"protocol": "requests"}'),
        {"step_count": np.ones(99), "host_ns": np.arange(99.0)},
    )
    assert measure("latency_p99", record, few) is None
    assert measure("latency_p50", record, few) is not None


def test_the_share_of_the_peak_counts_the_untreated_model() -> None:
    """989.5 TFLOP/s in bfloat16; a million images a second with 100 million operations each are a tenth of it."""
    kept = {"step_count": np.array([1.0]), "host_ns": np.array([1e6])}
    record = TrialRecord(
        items_per_step=1000.0, device="NVIDIA H200", product_dtype="bfloat16", model_flops_per_item=98.95e6,
        flops_per_item=1.0,
    )  # fmt: skip
    found = measure("mfu", record, kept)
    assert found is not None
    assert found.value == pytest.approx(0.1)
    two = measure("mfu", dataclasses.replace(record, rank_count=2), kept)
    assert two is not None
    assert two.value == pytest.approx(0.05)
    for unknown in ({"device": "cpu"}, {"product_dtype": "float64"}, {"model_flops_per_item": 1e9}):
        assert measure("mfu", dataclasses.replace(record, **unknown), kept) is None


def test_out_of_memory_is_a_share_of_what_was_launched() -> None:
    launched = [TrialRecord(outcome=outcome, duration_ns=1) for outcome in (Outcome.OK, Outcome.OOM_DEVICE)]
    skip = TrialRecord(outcome=Outcome.NOT_APPLICABLE)
    assert oom_rate([*launched, *launched, skip]) == 0.5
    assert oom_rate([skip]) is None


@pytest.mark.parametrize(
    ("startup", "step", "steps"), [(400.0, 8.0, 150.0), (50.0, 8.0, 0.0), (400.0, 12.0, None), (100.0, 10.0, 0.0)]
)
def test_a_longer_start_is_paid_back_by_quicker_steps(startup: float, step: float, steps: float | None) -> None:
    before = {"startup_time": 100.0, "step_time_mean": 10.0}
    assert break_even_steps(before, {"startup_time": startup, "step_time_mean": step}) == steps
    assert break_even_steps(before, {}) is None


def test_throughput_and_mean_step_agree() -> None:
    step, rate = measure("step_time_mean", RECORD, KEPT), measure("throughput", RECORD, KEPT)
    assert step is not None
    assert rate is not None
    assert rate.value * step.value == pytest.approx(4e9)


def test_device_memory_is_what_limits_a_gpu() -> None:
    record = TrialRecord(peak_host_bytes=10, peak_allocated_bytes=60, peak_reserved_bytes=80, peak_device_bytes=90)
    names = [name for name in METRICS if "peak" in name and not name.startswith("peak_memory_")]
    values = {name: measure(name, record, {}) for name in (*names, "memory_utilization")}
    assert {name: found and found.value for name, found in values.items()} == {
        "peak_memory": 60,
        "peak_allocated": 60,
        "peak_reserved": 80,
        "peak_device": 90,
        "peak_host": 10,
        "memory_utilization": 0.75,
    }


@pytest.mark.parametrize("metric", METRICS)
def test_what_is_unknown_is_none_and_never_zero(metric: str) -> None:
    assert measure(metric, TrialRecord(), {}) is None


def test_unknown_windows_make_no_number() -> None:
    kept = {**KEPT, "device_ns": np.array([18.0, np.nan, 60.0]), "data_wait_ns": np.full(3, np.nan)}
    assert measure("step_time_device", RECORD, kept) is None
    assert measure("data_wait", RECORD, kept) is None


def test_the_table_is_complete() -> None:
    assert METRICS[PRIMARY].better == "lower"
    for name, metric in METRICS.items():
        assert metric.id == name
        assert metric.summary
        assert metric.better in ("lower", "higher", "none")
    assert not set(SUMMARIES) & set(METRICS)
    assert METRICS["throughput"].better == METRICS["memory_utilization"].better == "higher"


def test_the_table_is_read_without_heavy_libraries() -> None:
    code = "import sys, harness.metrics; print(sorted({'numpy', 'pandas', 'torch', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
