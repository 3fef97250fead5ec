"""Gives the CUDA allocator's free memory back to the driver every few steps, as some advice against running out has it.

Costs a wait for the device, and asking the driver for the same memory again in the next step. Helps other processes
on the same device only, or once, after a phase with other sizes.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment

FREED = "segment.all.freed"


def between(step: Any, bench: Any, every: int) -> Any:
    """step -> step and, every so often, an empty cache."""
    import torch

    count = 0

    def emptying() -> None:
        nonlocal count
        step()
        count += 1
        if count % every == 0:
            torch.cuda.empty_cache()

    return emptying


def before(bench: Any, every: int) -> int:
    """Segments given back by the end of the warm-up."""
    import torch

    return int(torch.cuda.memory_stats(bench.device).get(FREED, 0))


def after(bench: Any, snapshot: int, trace: Any, every: int) -> dict[str, Any]:
    """Segments were given back since the warm-up without the allocator being short of memory."""
    import torch

    stats = torch.cuda.memory_stats(bench.device)
    freed, retries = int(stats.get(FREED, 0)) - snapshot, int(stats.get("num_alloc_retries", 0))
    if freed <= retries:
        raise NoEffect(f"{freed} segments were given back to the driver since the warm-up")
    return {"segments_given_back": freed, "alloc_retries": retries}


TREATMENT = Treatment(
    name="empty_cache",
    summary="the allocator's cache emptied every few steps",
    sources=("https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-memory-management",),
    params={"every": Param(1, "steps between", kind="int", minimum=1)},
    requires=Requires(devices=("cuda",)),
    hooks={"between": between},
    proof=Proof(after=after, before=before),
    addresses=("memory",),
    numerics=lambda traits: "identical",
    before=True,
)
