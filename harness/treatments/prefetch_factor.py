"""Sets how many batches each loader worker makes ahead; torch's own choice is two.

Helps where the time to make a batch varies, so that a slow one is covered by those in store. Holds that many more
batches in memory, and cannot help where the workers are too slow on average.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment


def loader(arguments: dict[str, Any], bench: Any, batches: int) -> dict[str, Any]:
    """Ask the DataLoader to make so many batches ahead."""
    return {**arguments, "prefetch_factor": batches}


def proof(bench: Any, snapshot: Any, trace: Any, batches: int) -> dict[str, Any]:
    """A new epoch, begun here, has so many batches under way for each of its workers."""
    epoch = iter(bench.loader)
    workers, outstanding = len(getattr(epoch, "_workers", ())), getattr(epoch, "_tasks_outstanding", 0)
    wanted = min(batches * workers, len(bench.loader))
    del epoch
    if not workers or outstanding != wanted:
        raise NoEffect(f"{outstanding} batches are under way for {workers} workers, not {batches} for each")
    return {"batches_under_way": outstanding, "workers": workers}


TREATMENT = Treatment(
    name="prefetch_factor",
    summary="the number of batches each worker makes ahead",
    sources=("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",),
    params={"batches": Param(4, "batches ahead for each worker", kind="int", minimum=1)},
    requires=Requires(inputs=("loader",), with_treatments=("loader_workers",)),
    hooks={"loader": loader},
    proof=Proof(after=proof),
    changes=("loader.prefetch",),
    addresses=("loader",),
    numerics=lambda traits: "identical",
)
