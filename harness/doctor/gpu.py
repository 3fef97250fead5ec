"""Which GPUs are there, and are their clocks free to move?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.doctor import Finding

if TYPE_CHECKING:
    from harness.machine import Machine


def check(machine: Machine) -> Finding:
    """Name the GPUs that NVML shows."""
    if not machine.gpus:
        return Finding("ok", "no CUDA device; measuring on the CPU")
    sizes = [f"{gpu.memory_bytes >> 30} GiB" if gpu.memory_bytes else "memory unknown" for gpu in machine.gpus]
    return Finding("ok", ", ".join(f"{gpu.name} ({size})" for gpu, size in zip(machine.gpus, sizes, strict=True)))
