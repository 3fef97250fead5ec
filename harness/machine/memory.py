"""Memory, its limits and how the kernel hands it out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.machine.cgroup import memory_limit
from harness.machine.reading import file_fact, known_fact, read_text, value_fact
from harness.record import Fact


def memory_facts(root: Path) -> Iterator[Fact]:
    """Memory, its limits and how the kernel hands it out."""
    text = read_text(root / "proc/meminfo")[0] or ""
    total = re.search(r"^MemTotal:\s*(\d+) kB", text, re.MULTILINE)
    yield value_fact("memory.total", int(total[1]) * 1024 if total else None, "/proc/meminfo", unit="bytes")
    yield known_fact("cgroup.memory_limit", memory_limit(root), "cgroup", unit="bytes")
    yield file_fact("memory.transparent_huge_pages", root / "sys/kernel/mm/transparent_hugepage/enabled")
    yield file_fact("memory.swappiness", root / "proc/sys/vm/swappiness")
    yield file_fact("numa.balancing", root / "proc/sys/kernel/numa_balancing")


def usable_memory(values: Mapping[str, str | None]) -> int | None:
    """The machine's memory or its cgroup's limit, whichever is less, in bytes."""
    known = [int(text) for name in ("memory.total", "cgroup.memory_limit") if (text := values[name])]
    return min(known, default=None)
