"""Watches a running child from outside: its process tree and the rest of the machine by /proc, its GPUs by NVML.

Costs well under 2 % of one core: it looks twice a second, and asks the driver of a GPU ten times. Counters are
stored as they stand ("so far"), so that any part of the run can be cut out afterwards: see `shares`.
"""

from __future__ import annotations

import os
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from harness import nvml
from harness.record import Sample

HOST_INTERVAL_S = 0.5
GPU_INTERVAL_S = 0.1
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")


class Sampler:
    """Samples a process tree until it ends or the block is left; a context manager.

    with Sampler(trial_id, process.pid, gpu_uuids) as sampler:
        process.wait()
    sampler.samples
    """

    def __init__(
        self, trial_id: str, pid: int, gpu_uuids: Sequence[str] = (), host_interval_s: float = HOST_INTERVAL_S
    ) -> None:
        self.samples: list[Sample] = []
        self._trial_id = trial_id
        self._pid = pid
        self._host_interval_s = host_interval_s
        self._gpus = GpuProbe(gpu_uuids) if gpu_uuids else None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def __enter__(self) -> Self:
        self._look(host=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look(host=True)

    def _run(self) -> None:
        interval_s = GPU_INTERVAL_S if self._gpus else self._host_interval_s
        next_host = time.monotonic() + self._host_interval_s
        while not self._stop.wait(interval_s):
            host = time.monotonic() >= next_host
            if host:
                next_host += self._host_interval_s
            self._look(host or self._gpus is None)

    def _look(self, host: bool) -> None:
        pids = process_tree(self._pid) if host else []
        values = look_at_host(pids) if host else {}
        if self._gpus:
            values |= self._gpus.look(pids)
        self.samples.append(Sample(trial_id=self._trial_id, monotonic_ns=time.monotonic_ns(), **values))


# ------------------------------------------------------------------------------------------------ the host


def process_tree(pid: int) -> list[int]:
    """A process and everything below it, found without looking at any other process."""
    found = [pid]
    for parent in found:  # grows while it is walked
        for task in _entries(PROC / str(parent) / "task"):
            found += [int(child) for child in _read(task / "children").split()]
    return found


def look_at_host(pids: Sequence[int]) -> dict[str, int | None]:
    """The host's part of a sample. The tree's counters are None once its root has ended."""
    trees = [usage for pid in pids if (usage := _usage(pid))]
    busy_ns, steal_ns = machine_time(_read(PROC / "stat"))
    tree_ns = sum(busy for busy, _ in trees) if trees and _usage(pids[0]) else None
    pressure = re.search(r"some .*total=(\d+)", _read(PROC / "pressure/cpu"))
    return {
        "cpu_busy_ns": tree_ns,
        "rss_bytes": sum(rss for _, rss in trees) if tree_ns is not None else None,
        "steal_ns": steal_ns,
        "foreign_cpu_ns": None if tree_ns is None or busy_ns is None else busy_ns - tree_ns,
        "cpu_frequency_mhz": _frequency_mhz(),
        "pressure_cpu_ns": int(pressure[1]) * 1000 if pressure else None,
    }


def machine_time(stat: str) -> tuple[int | None, int | None]:
    """CPU time used by anybody and CPU time stolen, in ns since boot, from the first line of /proc/stat."""
    if not stat.startswith("cpu "):
        return None, None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, stat.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq) * TICK_NS, steal * TICK_NS


def _usage(pid: int) -> tuple[int, int] | None:
    """CPU time in ns, ended children included, and resident bytes; None where the process has ended."""
    fields = _read(PROC / str(pid) / "stat").rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        return None
    return sum(map(int, fields[11:15])) * TICK_NS, int(fields[21]) * PAGE_BYTES


def _frequency_mhz() -> int | None:
    """Mean over the allowed cores; None where the kernel does not say (virtual machines)."""
    texts = [
        _read(PROC.parent / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq") for core in _some_cores()
    ]
    values = [int(text) for text in texts if text.strip().isdigit()]
    return round(sum(values) / len(values) / 1000) if values else None


def _some_cores() -> list[int]:
    """At most eight of the allowed cores: asking every core of a large machine would disturb it."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[:: max(1, len(allowed) // 8)]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


# ------------------------------------------------------------------------------------------------ the GPUs


class GpuProbe:
    """Asks the driver about the GPUs of a trial. Several GPUs make one sample: see `look`."""

    def __init__(self, uuids: Sequence[str]) -> None:
        self._api, _ = nvml.open_nvml()
        handles = [self._api.by_uuid(uuid) for uuid in uuids] if self._api else []
        self._handles = [handle for handle in handles if handle is not None]
        self._counters = [nvml.Counters(self._api, handle) for handle in self._handles] if self._api else []

    def look(self, pids: Sequence[int]) -> dict[str, Any]:
        """The GPUs' part of a sample: sums of memory, power and energy, the mean utilization, the hottest, the slowest.

        Processes are counted only when the tree is known (`pids`), since that question is a slow one.
        """
        if self._api is None or not self._handles:
            return {}
        ask, codes = self._api.ask, self._api.api
        rates = self._each(lambda gpu: ask("DeviceGetUtilizationRates", gpu))
        memory = self._each(lambda gpu: ask("DeviceGetMemoryInfo", gpu))
        sm_clocks = self._each(lambda gpu: ask("DeviceGetClockInfo", gpu, codes.NVML_CLOCK_SM))
        memory_clocks = self._each(lambda gpu: ask("DeviceGetClockInfo", gpu, codes.NVML_CLOCK_MEM))
        power = self._each(lambda gpu: ask("DeviceGetPowerUsage", gpu))
        energy = self._each(lambda gpu: ask("DeviceGetTotalEnergyConsumption", gpu))
        heat = self._each(lambda gpu: ask("DeviceGetTemperature", gpu, codes.NVML_TEMPERATURE_GPU))
        return {
            "gpu_utilization": sum(rate.gpu for rate in rates) / len(rates) / 100 if rates else None,
            "gpu_memory_bytes": sum(int(info.used) for info in memory) if memory else None,
            "sm_clock_mhz": min(sm_clocks, default=None),
            "memory_clock_mhz": min(memory_clocks, default=None),
            "power_mw": sum(power) if power else None,
            "energy_mj": sum(energy) if energy else None,
            **self._activity(),
            "temperature_c": max(heat, default=None),
            "throttle_bits": self._throttle_bits(),
            "foreign_processes": self._foreign_processes(pids) if pids else None,
        }

    def _each(self, question: Callable[[Any], nvml.Answer]) -> list[Any]:
        """The answers of all GPUs; none at all if one of them has none, since a part would pass for the whole."""
        answers = [question(handle) for handle in self._handles]
        return [answer.value for answer in answers] if all(answer.state == "ok" for answer in answers) else []

    def _activity(self) -> dict[str, float]:
        """The mean over the GPUs of what their performance counters say since the last look."""
        looks = [counters.look() for counters in self._counters]
        return {name: sum(look[name] for look in looks) / len(looks) for name in looks[0]} if all(looks) else {}

    def _throttle_bits(self) -> int | None:
        assert self._api
        bits = self._each(lambda gpu: self._api.ask("DeviceGetCurrentClocksEventReasons", gpu))  # type: ignore[union-attr]
        if not bits:  # a driver before 535 knows it by its older name
            bits = self._each(lambda gpu: self._api.ask("DeviceGetCurrentClocksThrottleReasons", gpu))  # type: ignore[union-attr]
        united = 0
        for each in bits:
            united |= int(each)
        return united if bits else None

    def _foreign_processes(self, pids: Sequence[int]) -> int | None:
        """Processes on the GPUs that are not the tree's; None where the driver's ids are not ours (in a container)."""
        assert self._api
        lists = self._each(lambda gpu: self._api.ask("DeviceGetComputeRunningProcesses", gpu))  # type: ignore[union-attr]
        seen = {int(process.pid) for processes in lists for process in processes}
        if len(lists) == 0 or any(not (PROC / str(pid)).exists() for pid in seen):
            return None
        return len(seen - set(pids))


# ------------------------------------------------------------------------------------------------ a part of the run


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The load over a part of a run; None where it is unknown."""

    cpu_utilization: float | None
    """CPU time of the tree over wall time and cores."""
    steal_share: float | None
    """Stolen CPU time over wall time and cores."""
    foreign_cpu_share: float | None
    """CPU time of everything else over wall time: in cores."""
    gpu_utilization: float | None
    """Mean of the driver's utilization, 0 to 1."""
    sm_activity: float | None
    tensor_activity: float | None
    dram_activity: float | None
    """Means of what the driver's performance counters say, 0 to 1."""
    energy_mj: float | None
    """Growth of the energy counter."""


def shares(samples: Sequence[Sample], started_ns: int, ended_ns: int, cores: int) -> Shares:
    """The load between two moments of the monotonic clock, the counters interpolated between samples."""
    busy = _rate(samples, "cpu_busy_ns", started_ns, ended_ns)
    steal = _rate(samples, "steal_ns", started_ns, ended_ns)
    power = _rate(samples, "energy_mj", started_ns, ended_ns)
    inside = [sample for sample in samples if started_ns <= sample.monotonic_ns <= ended_ns]
    return Shares(
        cpu_utilization=None if busy is None else busy / cores,
        steal_share=None if steal is None else steal / cores,
        foreign_cpu_share=_rate(samples, "foreign_cpu_ns", started_ns, ended_ns),
        gpu_utilization=_mean(inside, "gpu_utilization"),
        sm_activity=_mean(inside, "sm_activity"),
        tensor_activity=_mean(inside, "tensor_activity"),
        dram_activity=_mean(inside, "dram_activity"),
        energy_mj=None if power is None else power * (ended_ns - started_ns),
    )


def _mean(samples: Sequence[Sample], column: str) -> float | None:
    values = [value for sample in samples if (value := getattr(sample, column)) is not None]
    return sum(values) / len(values) if values else None


def _rate(samples: Sequence[Sample], column: str, started_ns: int, ended_ns: int) -> float | None:
    """Growth of a counter per ns; None unless samples cover at least half of the part."""
    points = [(sample.monotonic_ns, value) for sample in samples if (value := getattr(sample, column)) is not None]
    if len(points) < 2 or ended_ns <= started_ns:
        return None
    first, last = max(started_ns, points[0][0]), min(ended_ns, points[-1][0])
    if last - first < (ended_ns - started_ns) / 2:
        return None
    return max(0.0, (_at(points, last) - _at(points, first)) / (last - first))


def _at(points: Sequence[tuple[int, int]], moment_ns: int) -> float:
    """The counter's value at a moment between the first and the last point."""
    after = bisect_left(points, moment_ns, key=lambda point: point[0])
    if after == 0:
        return points[0][1]
    (left_ns, left), (right_ns, right) = points[after - 1], points[after]
    return left + (right - left) * (moment_ns - left_ns) / (right_ns - left_ns)
