"""Has the loader put its batches into page-locked memory, from which the GPU copies by itself.

Helps where batches are large, and is what lets a copy overlap with computing (non_blocking_copy). Costs a copy on the
host in a thread of its own, and memory that cannot be swapped out.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def loader(arguments: dict[str, Any], bench: Any) -> dict[str, Any]:
    """Ask the DataLoader for pinned batches."""
    return {**arguments, "pin_memory": True}


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """The copies to the device in the profiled step came from pinned memory."""
    copies = [kernel.name for kernel in trace.kernels if "HtoD" in kernel.name]
    pinned = [name for name in copies if "Pinned" in name]
    if not pinned:
        raise NoEffect(f"none of the {len(copies)} copies to the device came from pinned memory")
    return {"copies_to_device": len(copies), "from_pinned_memory": len(pinned)}


TREATMENT = Treatment(
    name="pin_memory",
    summary="batches in page-locked memory",
    sources=("https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",),
    requires=Requires(inputs=("loader",), devices=("cuda",)),
    hooks={"loader": loader},
    proof=Proof(after=proof),
    changes=("loader.pinned",),
    addresses=("loader", "host"),
    numerics=lambda traits: "identical",
)
