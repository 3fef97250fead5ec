"""Does something else use the processor? Blocks measured beside foreign load are dropped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

from harness.doctor import Finding

if TYPE_CHECKING:
    from harness.machine import Machine

LOOK_SECONDS = 1.0
BUSY_CORES = 0.1


def check(machine: Machine) -> Finding:
    """Watch the processor for a second."""
    before = psutil.cpu_times()
    time.sleep(LOOK_SECONDS)
    after = psutil.cpu_times()
    busy = sum(getattr(after, name) - getattr(before, name) for name in ("user", "system", "nice", "irq", "softirq"))
    steal = getattr(after, "steal", 0.0) - getattr(before, "steal", 0.0)
    text = f"{busy / LOOK_SECONDS:.2f} cores busy, {steal / LOOK_SECONDS:.2f} cores stolen over {LOOK_SECONDS:.0f} s"
    if busy / LOOK_SECONDS > BUSY_CORES or steal / LOOK_SECONDS > BUSY_CORES:
        return Finding("warning", text, "stop other work on this machine, or raise --max-foreign-load knowingly")
    return Finding("ok", text)
