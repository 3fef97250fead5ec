"""Lets the CUDA allocator's segments grow in place, by mapping more memory behind them.

Helps against fragmentation where sizes vary from step to step. Costs calls to the driver while segments grow.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def process(change: Any, machine: Any) -> Any:
    """Set it before the allocator starts."""
    return change.with_allocator("expandable_segments", "True")


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """The memory in use lies in segments that can grow."""
    import torch

    segments = torch.cuda.memory._snapshot()["segments"]
    growing = [segment for segment in segments if segment.get("is_expandable")]
    if not growing:
        raise NoEffect(f"none of the allocator's {len(segments)} segments can grow")
    return {"segments": len(segments), "segments_that_grow": len(growing)}


TREATMENT = Treatment(
    name="alloc_expandable",
    summary="segments that grow in the CUDA allocator",
    sources=("https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf",),
    requires=Requires(devices=("cuda",)),
    hooks={"process": process},
    proof=Proof(after=proof),
    changes=("allocator.settings",),
    addresses=("memory",),
    numerics=lambda traits: "identical",
)
