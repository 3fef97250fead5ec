"""Divides every batch among the GPUs in one process, with a thread and a fresh copy of the model for each.

The habit of the days before one process a GPU. Copies the model in every step, gathers outputs and gradients on the
first GPU, and the threads wait for one another in Python: `ddp` is the replacement. Never helps against it; against one
GPU it can, where the model is small and its computation long.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Numerics, Proof, Requires, Treatment


def shard(model: Any, bench: Any) -> Any:
    """Wrap the model: each forward pass copies it to every visible GPU."""
    import torch

    return torch.nn.DataParallel(model)


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Every GPU held something, and the backward pass gathered what replicas computed."""
    import torch

    allocated = [torch.cuda.max_memory_allocated(index) for index in range(torch.cuda.device_count())]
    gathered = trace.named("GatherBackward", "BroadcastBackward")
    if len(allocated) < 2 or not all(allocated) or not gathered:
        raise NoEffect(f"bytes allocated by GPU: {allocated}; {len(gathered)} gathering nodes in the backward pass")
    return {"allocated_bytes_by_gpu": allocated, "gathering_nodes": len(gathered)}


def numerics(traits: frozenset[str]) -> Numerics:
    """BatchNorm normalises over a replica's part of the batch, and only the first replica's statistics are kept."""
    return "changes" if "batchnorm" in traits else "close"


TREATMENT = Treatment(
    name="data_parallel",
    summary="one process divides each batch among the GPUs (an old habit)",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#use-nn-parallel-distributeddataparallel-instead-of-multiprocessing-or-nn-dataparallel",
    ),
    requires=Requires(devices=("cuda",), gpus=2),
    hooks={"shard": shard},
    proof=Proof(after=proof),
    addresses=("compute",),
    numerics=numerics,
    before=True,
)
