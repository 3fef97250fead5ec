"""Sets how many threads one operator may use (the OpenMP pool), for the whole process from its start.

Helps where the default asks for more threads than there are cores for this process (containers, several ranks, loader
workers), or for hyper-threads that share one unit. Hurts where it leaves cores idle.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from harness.spec import NoEffect, Param, Proof, Treatment


def process(change: Any, machine: Any, n: int) -> Any:
    """Set it before any library makes its pool."""
    return change.with_env("OMP_NUM_THREADS", str(n))


def proof(bench: Any, snapshot: Any, trace: Any, n: int) -> dict[str, Any]:
    """The OpenMP runtime (or, without one, the BLAS library) and torch report pools of this size."""
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    pools = [(pool["user_api"], pool["internal_api"], pool["num_threads"]) for pool in threadpool_info()]
    sizes = {size for kind, _, size in pools if kind == "openmp"} or {size for _, _, size in pools}
    torch = sys.modules.get("torch")
    if torch is not None:
        sizes.add(torch.get_num_threads())
    if sizes != {n}:
        raise NoEffect(f"the thread pools hold {', '.join(map(str, sorted(sizes))) or 'no'} threads, not {n}")
    return {"pools": [list(pool) for pool in pools], "threads_alive": len(os.listdir("/proc/self/task"))}  # noqa: PTH208


TREATMENT = Treatment(
    name="omp_threads",
    summary="the number of threads an operator may use",
    sources=(
        "https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    params={"n": Param("cores", "threads", kind="int", minimum=1)},
    hooks={"process": process},
    proof=Proof(after=proof),
    occupies=("threads",),
    changes=("threads.intra",),
    addresses=("compute", "host"),
)
