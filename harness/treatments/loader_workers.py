"""Reads and decodes batches in worker processes beside the training process, several batches ahead.

Helps where the model waits for data and cores are idle. Hurts where the workers take the cores the model computes on,
where items are so cheap that sending them between processes costs more than making them, and at the start of every
epoch, when the workers are started again.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment

WORKER = "pt_data_worker"
"""The name that torch gives its loader's processes."""


def loader(arguments: dict[str, Any], bench: Any, workers: int) -> dict[str, Any]:
    """Ask the DataLoader for worker processes."""
    return {**arguments, "num_workers": workers}


def proof(bench: Any, snapshot: Any, trace: Any, workers: int) -> dict[str, Any]:
    """So many loader processes are alive below this one."""
    import psutil

    alive = []
    for process in bench.processes():
        try:
            if process.name() == WORKER and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    if len(alive) != workers:
        raise NoEffect(f"{len(alive)} loader processes are alive below this one, not {workers}")
    return {"worker_processes": len(alive)}


TREATMENT = Treatment(
    name="loader_workers",
    summary="batches made by worker processes, ahead of the step",
    sources=(
        "https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    params={"workers": Param("max(1, min(cores - 1, 8))", "worker processes", kind="int", minimum=1)},
    requires=Requires(inputs=("loader",)),
    hooks={"loader": loader},
    proof=Proof(after=proof),
    changes=("loader.workers",),
    addresses=("loader",),
)
