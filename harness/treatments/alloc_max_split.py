"""Keeps the CUDA allocator from splitting blocks above a size, so that large ones stay whole for large requests.

Helps against running out of memory by fragmentation, where sizes vary. Costs memory, since a large block then serves
one small request, and calls to the driver.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment


def process(change: Any, machine: Any, mb: int) -> Any:
    """Set it before the allocator starts."""
    return change.with_allocator("max_split_size_mb", str(mb))


def proof(bench: Any, snapshot: Any, trace: Any, mb: int) -> dict[str, Any]:
    """The allocator reports this limit as in force."""
    import torch

    settings = torch.cuda.memory._snapshot()["allocator_settings"]
    limit = settings.get("max_split_size", -1)
    if limit != mb * 1024 * 1024:
        raise NoEffect(f"the allocator's limit is {limit} bytes, not {mb} MiB")
    return {"max_split_bytes": limit}


TREATMENT = Treatment(
    name="alloc_max_split",
    summary="no splitting of large blocks in the CUDA allocator",
    sources=("https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf",),
    params={"mb": Param(128, "the largest block that is split, in MiB", kind="int", minimum=21)},
    requires=Requires(devices=("cuda",)),
    hooks={"process": process},
    proof=Proof(after=proof),
    changes=("allocator.settings",),
    addresses=("memory",),
    numerics=lambda traits: "identical",
)
