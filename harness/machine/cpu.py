"""The processor, its NUMA nodes, and what of them this process may use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.machine.cgroup import cpu_quota
from harness.machine.reading import file_fact, known_fact, read_text, value_fact
from harness.record import Fact

CPU_FEATURES = (
    "avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8", "sve", "bf16",
)  # fmt: skip
"""The instruction sets that decide what a data type costs."""


def cpu_facts(root: Path) -> Iterator[Fact]:
    """Processor, NUMA and what of them this process may use."""
    cpus, sysfs = root / "proc/cpuinfo", root / "sys/devices/system"
    text = read_text(cpus)[0] or ""
    allowed = sorted(os.sched_getaffinity(0))
    quota = cpu_quota(root)
    first = sysfs / f"cpu/cpu{allowed[0]}"
    yield value_fact("cpu.model", cpu_model(text), str(cpus), kind="hardware")
    yield value_fact("cpu.logical_cores", os.cpu_count(), "os.cpu_count", kind="hardware")
    yield value_fact("numa.nodes", count_nodes(sysfs / "node"), str(sysfs / "node"), kind="hardware")
    yield value_fact("cpu.effective_cores", effective_cores(len(allowed), quota), "affinity, cgroup", kind="identity")
    yield value_fact("cpu.allowed", ranges(allowed), "sched_getaffinity")
    yield known_fact("cgroup.cpu_quota", None if quota is None else f"{quota:g}", "cgroup", unit="cores")
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    names = set(flags[1].split()) if flags else set()
    yield value_fact("cpu.features", " ".join(name for name in CPU_FEATURES if name in names), str(cpus))
    yield value_fact("cpu.virtual", "yes" if "hypervisor" in names else "no", str(cpus))
    microcode = re.search(r"^microcode\s*:\s*(\S+)", text, re.MULTILINE)
    yield known_fact("cpu.microcode", microcode[1] if microcode else None, str(cpus))
    yield file_fact("cpu.smt", sysfs / "cpu/smt/control")
    yield file_fact("cpu.governor", first / "cpufreq/scaling_governor")
    yield file_fact("cpu.maximum_frequency", first / "cpufreq/cpuinfo_max_freq", unit="kHz")
    yield file_fact("cpu.no_turbo", sysfs / "cpu/intel_pstate/no_turbo")
    yield file_fact("cpu.boost", sysfs / "cpu/cpufreq/boost")


def cpu_model(cpuinfo: str) -> str | None:
    """The processor's name; on machines that give none (ARM), its implementer and part numbers."""
    if match := re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE):
        return " ".join(match[1].split())
    words = ("implementer", "part", "variant")
    codes = [re.search(rf"^CPU {word}\s*:\s*(\S+)", cpuinfo, re.MULTILINE) for word in words]
    return " ".join(match[1] for match in codes if match) or None


def effective_cores(allowed: int, quota: float | None) -> int:
    """How many cores defaults may use: the affinity mask, cut by the cgroup's quota, at least 1."""
    return max(1, allowed if quota is None else min(allowed, int(quota)))


def count_nodes(folder: Path) -> int:
    """How many NUMA nodes the kernel shows, at least 1."""
    try:
        return max(1, sum(bool(re.fullmatch(r"node\d+", path.name)) for path in folder.iterdir()))
    except OSError:
        return 1  # a kernel without NUMA


def ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5] as "0-2,5"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
