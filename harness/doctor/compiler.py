"""Is there a C++ compiler? torch.compile needs one on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.doctor import Finding

if TYPE_CHECKING:
    from harness.machine import Machine


def check(machine: Machine) -> Finding:
    """Look for a C++ compiler on the path."""
    for name in ("c++", "g++", "clang++"):
        if machine.has_command(name):
            return Finding("ok", f"{name} is installed")
    return Finding("warning", "no C++ compiler: torch.compile will fail on the CPU", "install g++")
