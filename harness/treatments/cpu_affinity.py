"""Keeps the process and all its threads on the first few cores that it may use.

Helps where the scheduler moves threads between cores with caches of their own, and where another process is to keep
the rest. Hurts where it leaves cores idle, or puts more threads on a core than it has units.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment


def process(change: Any, machine: Any, cores: int) -> Any:
    """Start it under taskset, so that every thread inherits the choice."""
    chosen = sorted(os.sched_getaffinity(0))[:cores]
    return change.with_prefix("taskset", "--cpu-list", ",".join(map(str, chosen)))


def proof(bench: Any, snapshot: Any, trace: Any, cores: int) -> dict[str, Any]:
    """Every thread of this process may run on so many cores, the same for all."""
    allowed = {frozenset(os.sched_getaffinity(int(task.name))) for task in Path("/proc/self/task").iterdir()}
    sizes = sorted({len(choice) for choice in allowed})
    if len(allowed) != 1 or sizes != [cores]:
        raise NoEffect(f"the threads may run on {' or '.join(map(str, sizes))} cores, not {cores}")
    return {"cores": sorted(next(iter(allowed)))}


TREATMENT = Treatment(
    name="cpu_affinity",
    summary="the process kept on the first few cores",
    sources=(
        "https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    params={"cores": Param("max(cores - 1, 1)", "how many cores", kind="int", minimum=1)},
    requires=Requires(commands=("taskset",)),
    hooks={"process": process},
    proof=Proof(after=proof),
    occupies=("affinity",),
    changes=("affinity",),
    addresses=("host", "compute"),
)
