"""Moves the activations of each repeated block to host memory in the forward pass, and back for the backward pass.

Helps where they do not fit on the device and the link to the host is fast. Costs the copies both ways, which wait for
each other with computing, and pinned host memory of their size.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, NotApplicable, Proof, Requires, Treatment


def recompute(model: Any, bench: Any) -> Any:
    """Wrap each repeated block of the workload where it stands in the model."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        apply_activation_checkpointing,
        offload_wrapper,
    )

    blocks = {id(block) for block in bench.workload.blocks(model)} if bench.workload.blocks else set()
    if not blocks:
        raise NotApplicable(f"the workload {bench.workload.name} names no repeated blocks")
    apply_activation_checkpointing(
        model, checkpoint_wrapper_fn=offload_wrapper, check_fn=lambda module: id(module) in blocks
    )
    return model


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """In the profiled step at least a tensor of each block went to the host, and one came back."""
    blocks = len(bench.workload.blocks(bench.model)) if bench.workload.blocks else 0
    out = [kernel for kernel in trace.kernels if "DtoH" in kernel.name]
    back = [kernel for kernel in trace.kernels if "HtoD" in kernel.name]
    if not blocks or min(len(out), len(back)) < blocks:
        raise NoEffect(f"{len(out)} copies to the host and {len(back)} back, for {blocks} blocks")
    return {"copies_to_host": len(out), "copies_back": len(back), "blocks": blocks}


TREATMENT = Treatment(
    name="activation_offload",
    summary="activations of the repeated blocks kept in host memory",
    sources=("https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.save_on_cpu",),
    requires=Requires(modes=("train",), devices=("cuda",), traits=("repeated_blocks",)),
    hooks={"recompute": recompute},
    proof=Proof(after=proof),
    occupies=("activations",),
    addresses=("memory",),
    numerics=lambda traits: "identical",
)
