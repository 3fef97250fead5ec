"""The sampler sees the child's whole tree, costs little, and cuts any part out of what it saw."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from harness import nvml, telemetry
from harness.record import Sample
from harness.telemetry import Sampler, machine_time, process_tree, shares

BUSY_GRANDCHILD = """
import subprocess, sys, time
work = "import time; end = time.process_time() + 0.5\\nwhile time.process_time() < end: pass\\ntime.sleep(0.6)"
subprocess.run([sys.executable, "-c", work])
time.sleep(0.3)
"""


def test_the_whole_tree_is_seen_and_ended_children_stay_counted() -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY_GRANDCHILD])
    with Sampler("t", process.pid, host_interval_s=0.1) as sampler:
        process.wait()
    seen = [sample.cpu_busy_ns for sample in sampler.samples if sample.cpu_busy_ns is not None]
    assert seen[-1] >= 0.5e9
    assert seen == sorted(seen)
    assert max(sample.rss_bytes or 0 for sample in sampler.samples) > 4 << 20
    assert all(sample.trial_id == "t" for sample in sampler.samples)
    times = [sample.monotonic_ns for sample in sampler.samples]
    assert times == sorted(times)
    assert sampler.samples[-1].cpu_busy_ns is None  # the tree is gone: unknown, not 0
    assert sampler.samples[-1].steal_ns is not None


def test_the_tree_of_a_process_holds_its_descendants_and_nothing_else() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 30 & sleep 30 & wait"]) as process:
        time.sleep(0.2)
        tree = process_tree(process.pid)
        assert len(tree) == 3
        assert os.getpid() not in tree
        for pid in reversed(tree):
            os.kill(pid, 9)
    assert process_tree(process.pid) == [process.pid]


def test_watching_costs_under_two_percent_of_a_core() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3)"]) as process:
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        with Sampler("t", process.pid) as sampler:
            process.wait()
        after, wall_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - started
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert len(sampler.samples) >= 6
    assert used_s / wall_s < 0.02


def test_a_process_that_never_was_is_watched_in_vain() -> None:
    with Sampler("t", 2**22 - 1) as sampler:
        pass
    assert [sample.cpu_busy_ns for sample in sampler.samples] == [None, None]


def test_the_time_of_the_machine() -> None:
    text = "cpu  100 20 30 1000 50 6 4 7 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"
    assert machine_time(text) == (160 * telemetry.TICK_NS, 7 * telemetry.TICK_NS)
    assert machine_time("") == (None, None)


# ------------------------------------------------------------------------------------------------ a part of the run


def sample(second: float, **values: Any) -> Sample:
    return Sample(trial_id="t", monotonic_ns=int(second * 1e9), **values)


def test_counters_are_interpolated_over_the_part_asked_for() -> None:
    samples = [
        sample(0, cpu_busy_ns=0, steal_ns=0, foreign_cpu_ns=0),
        sample(2, cpu_busy_ns=int(4e9), steal_ns=0, foreign_cpu_ns=0),
        sample(4, cpu_busy_ns=int(6e9), steal_ns=int(0.4e9), foreign_cpu_ns=int(1e9)),
    ]
    found = shares(samples, int(1e9), int(3e9), cores=2)
    # tree: from 2 s to 5 s of CPU time in 2 s; steal and foreign: half of the second interval's growth
    assert found.cpu_utilization == pytest.approx(3 / 2 / 2)
    assert found.steal_share == pytest.approx(0.2 / 2 / 2)
    assert found.foreign_cpu_share == pytest.approx(0.5 / 2)
    assert found.gpu_utilization is None


def test_the_mean_utilization_is_that_of_the_part() -> None:
    samples = [sample(second, gpu_utilization=second / 10) for second in range(6)]
    assert shares(samples, int(2e9), int(4e9), cores=1).gpu_utilization == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("started", "ended", "known"),
    [(0, 4, True), (0, 6, True), (0, 9, False), (5, 6, False), (3, 3, False), (3, 2, False), (-3, 2, False)],
)
def test_a_part_that_is_hardly_covered_by_samples_is_unknown(started: float, ended: float, known: bool) -> None:
    samples = [sample(second, steal_ns=0) for second in range(5)]
    assert (shares(samples, int(started * 1e9), int(ended * 1e9), cores=1).steal_share is not None) == known


def test_no_samples_no_shares() -> None:
    assert shares([], 0, 10, cores=1) == shares([sample(0, steal_ns=1)], 0, 10, cores=1)
    assert shares([], 0, 10, cores=1).foreign_cpu_share is None


# ------------------------------------------------------------------------------------------------ GPUs


class FakeNvml:
    """Two GPUs; the second is the slower and hotter one. Processes are ours and one stranger's."""

    NVMLError = pynvml.NVMLError

    def __init__(self, pids: tuple[int, ...] = (), old_driver: bool = False, refuse_energy_of: str = "") -> None:
        self.pids = pids
        self.old_driver = old_driver
        self.refuse_energy_of = refuse_energy_of

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml"):
            raise AttributeError(name)
        return getattr(pynvml, name)

    def nvmlInit(self) -> None: ...

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in ("GPU-a", "GPU-b"):
            raise pynvml.NVMLError_NotFound
        return uuid

    def nvmlDeviceGetUtilizationRates(self, gpu: str) -> Any:
        return SimpleNamespace(gpu=90 if gpu == "GPU-a" else 50)

    def nvmlDeviceGetMemoryInfo(self, gpu: str) -> Any:
        return SimpleNamespace(used=1 << 30)

    def nvmlDeviceGetClockInfo(self, gpu: str, kind: int) -> int:
        return (1980 if gpu == "GPU-a" else 1500) + kind

    def nvmlDeviceGetPowerUsage(self, gpu: str) -> int:
        return 300_000

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: str) -> int:
        if gpu == self.refuse_energy_of:
            raise pynvml.NVMLError_NotSupported
        return 5_000

    def nvmlDeviceGetTemperature(self, gpu: str, sensor: int) -> int:
        return 60 if gpu == "GPU-a" else 80

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: str) -> int:
        if self.old_driver:
            raise pynvml.NVMLError_FunctionNotFound
        return 1 if gpu == "GPU-a" else 4

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: str) -> int:
        return 8

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: str) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self.pids]


def look(fake: Any, monkeypatch: pytest.MonkeyPatch, *uuids: str, pids: tuple[int, ...] = ()) -> dict[str, Any]:
    monkeypatch.setattr(nvml, "load", lambda: fake)
    return telemetry.GpuProbe(uuids).look(pids)


def test_gpus_are_found_by_uuid_and_make_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(FakeNvml(pids=(os.getpid(), os.getppid())), monkeypatch, "GPU-a", "GPU-b", pids=(os.getpid(),))
    assert found == {
        "gpu_utilization": pytest.approx(0.7),
        "gpu_memory_bytes": 2 << 30,
        "sm_clock_mhz": 1500 + pynvml.NVML_CLOCK_SM,
        "memory_clock_mhz": 1500 + pynvml.NVML_CLOCK_MEM,
        "power_mw": 600_000,
        "energy_mj": 10_000,
        "temperature_c": 80,
        "throttle_bits": 5,
        "foreign_processes": 1,
    }


def test_one_gpu_alone_is_not_mixed_with_its_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(FakeNvml(), monkeypatch, "GPU-b")
    assert (found["gpu_utilization"], found["temperature_c"]) == (0.5, 80)
    assert found["foreign_processes"] is None  # the tree was not asked for


def test_what_one_gpu_does_not_say_is_unknown_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(FakeNvml(refuse_energy_of="GPU-b"), monkeypatch, "GPU-a", "GPU-b")
    assert found["energy_mj"] is None
    assert found["power_mw"] == 600_000


class FakeCounters(FakeNvml):
    """The first GPU's multiprocessors are busy half of the time, the second's a quarter."""

    def __init__(self, fails_on: str = "") -> None:
        super().__init__()
        self.fails_on = fails_on
        self.looks = 0

    def nvmlGpmQueryDeviceSupport(self, gpu: str) -> Any:
        return SimpleNamespace(isSupportedDevice=int(gpu != self.fails_on))

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:
        return SimpleNamespace(gpu="", at=0)

    def nvmlGpmSampleGet(self, gpu: str, sample: SimpleNamespace) -> SimpleNamespace:
        self.looks += 1
        sample.gpu, sample.at = gpu, self.looks
        return sample

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:
        return SimpleNamespace(metrics=[SimpleNamespace(nvmlReturn=0, value=0.0) for _ in range(98)])

    def nvmlGpmMetricsGet(self, question: SimpleNamespace) -> SimpleNamespace:
        assert question.sample1.gpu == question.sample2.gpu
        assert question.sample1.at < question.sample2.at
        share = 50.0 if question.sample1.gpu == "GPU-a" else 25.0
        for place in range(question.numMetrics):
            question.metrics[place].value = share / question.metrics[place].metricId
        return question


def test_performance_counters_tell_what_happened_since_the_look_before(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCounters()
    monkeypatch.setattr(nvml, "load", lambda: fake)
    probe = telemetry.GpuProbe(("GPU-a", "GPU-b"))
    assert "sm_activity" not in probe.look(())
    for _ in range(3):
        found = probe.look(())
        assert found["sm_activity"] == pytest.approx(0.375 / pynvml.NVML_GPM_METRIC_SM_UTIL)
        assert found["tensor_activity"] == pytest.approx(0.375 / pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL)
        assert found["dram_activity"] == pytest.approx(0.375 / pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL)


def test_counters_that_one_gpu_lacks_are_unknown_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCounters(fails_on="GPU-b")
    monkeypatch.setattr(nvml, "load", lambda: fake)
    probe = telemetry.GpuProbe(("GPU-a", "GPU-b"))
    assert all("sm_activity" not in probe.look(()) for _ in range(3))


def test_an_older_driver_gives_its_throttle_reasons_by_their_older_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(FakeNvml(old_driver=True), monkeypatch, "GPU-a")["throttle_bits"] == 8


def test_process_ids_of_another_name_space_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(FakeNvml(pids=(2**22 - 1,)), monkeypatch, "GPU-a", pids=(os.getpid(),))
    assert found["foreign_processes"] is None


def test_without_a_driver_or_with_an_unknown_gpu_there_are_no_gpu_values(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(FakeNvml(), monkeypatch, "GPU-unknown") == {}
    monkeypatch.setattr(nvml, "load", lambda: None)
    assert telemetry.GpuProbe(["GPU-a"]).look([]) == {}


def test_the_driver_is_asked_ten_times_a_second_and_the_host_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "load", FakeNvml)
    with Sampler("t", os.getpid(), ["GPU-a"], host_interval_s=0.4) as sampler:
        time.sleep(1.05)
    gpu = [sample for sample in sampler.samples if sample.gpu_utilization is not None]
    host = [sample for sample in sampler.samples if sample.steal_ns is not None]
    assert len(gpu) == len(sampler.samples) >= 5
    assert 2 <= len(host) < len(gpu)
