"""Has CUDA's own stream-ordered allocator (cudaMallocAsync) serve torch instead of torch's caching allocator.

Helps where several libraries share a device, whose memory the driver then gives to each as needed. Slower for each
allocation as a rule; it has no snapshots, and CUDA graphs cannot keep memory pools in it.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment

BACKEND = "cudaMallocAsync"


def process(change: Any, machine: Any) -> Any:
    """Set it before the allocator starts."""
    return change.with_allocator("backend", BACKEND)


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """The allocator at work says that it is this one, and has memory out."""
    import torch

    backend, bytes_out = torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated(bench.device)
    if backend != BACKEND or not bytes_out:
        raise NoEffect(f"the allocator at work is '{backend}', with {bytes_out} bytes out")
    return {"backend": backend, "allocated_bytes": bytes_out}


def conflicts(own: Any, others: Any) -> str | None:
    """Graphs need pools, and the settings of the caching allocator do not reach this one."""
    if "cuda_graph" in others:
        return f"{BACKEND} keeps no memory pools for CUDA graphs"
    settings = sorted({"alloc_max_split", "alloc_expandable"} & set(others))
    return f"{settings[0]} sets up torch's caching allocator, which {BACKEND} replaces" if settings else None


TREATMENT = Treatment(
    name="alloc_async",
    summary="CUDA's stream-ordered allocator in place of torch's",
    sources=("https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf",),
    requires=Requires(devices=("cuda",)),
    hooks={"process": process},
    proof=Proof(after=proof),
    conflicts=conflicts,
    changes=("allocator", "allocator.settings"),
    addresses=("memory",),
    numerics=lambda traits: "identical",
)
