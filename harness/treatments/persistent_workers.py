"""Keeps the loader's worker processes from one epoch to the next, rather than starting them again.

Helps short epochs and heavy datasets, whose workers take long to start. Holds the workers' memory all the time.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment

WORKER = "pt_data_worker"


def loader(arguments: dict[str, Any], bench: Any) -> dict[str, Any]:
    """Ask the DataLoader to keep its workers."""
    return {**arguments, "persistent_workers": True}


def before(bench: Any) -> set[int]:
    """The workers of the epoch under way."""
    return _workers(bench)


def after(bench: Any, snapshot: set[int], trace: Any) -> dict[str, Any]:
    """A new epoch, begun here, finds the processes of the one before."""
    epoch = iter(bench.loader)
    next(epoch)
    now = _workers(bench)
    del epoch
    if not now or now != snapshot:
        raise NoEffect(f"a new epoch has {len(now - snapshot)} new worker processes and {len(now & snapshot)} old ones")
    return {"workers_kept": len(now)}


def _workers(bench: Any) -> set[int]:
    return {process.pid for process in bench.processes() if process.name() == WORKER}


TREATMENT = Treatment(
    name="persistent_workers",
    summary="loader workers kept from one epoch to the next",
    sources=("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",),
    requires=Requires(inputs=("loader",), with_treatments=("loader_workers",)),
    hooks={"loader": loader},
    proof=Proof(after=after, before=before),
    changes=("loader.persistent",),
    addresses=("loader",),
    numerics=lambda traits: "identical",
)
