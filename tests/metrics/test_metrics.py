"""Every metric by arithmetic done by hand, its unit and its direction."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from harness.metrics import METRICS, PRIMARY, measure
from harness.record import TrialRecord

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
    ],
)
def test_by_hand(metric: str, value: float) -> None:
    found = measure(metric, RECORD, KEPT)
    assert found is not None
    assert found.value == pytest.approx(value)
    assert found.unit == METRICS[metric].unit


def test_throughput_and_mean_step_agree() -> None:
    step, rate = measure("step_time_mean", RECORD, KEPT), measure("throughput", RECORD, KEPT)
    assert step is not None
    assert rate is not None
    assert rate.value * step.value == pytest.approx(4e9)


def test_device_memory_is_what_limits_a_gpu() -> None:
    record = TrialRecord(peak_host_bytes=10, peak_allocated_bytes=60, peak_reserved_bytes=80, peak_device_bytes=90)
    values = {name: measure(name, record, {}) for name in METRICS if "peak" in name or name == "memory_utilization"}
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
    assert METRICS["throughput"].better == METRICS["memory_utilization"].better == "higher"


def test_the_table_is_read_without_heavy_libraries() -> None:
    code = "import sys, harness.metrics; print(sorted({'numpy', 'pandas', 'torch', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
