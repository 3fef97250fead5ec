"""Keeps only the inputs of each repeated block and computes the rest of its activations again in the backward pass.

Helps where activations fill the memory: larger batches or longer sequences fit. Costs about one more forward pass a
step otherwise. BatchNorm's running statistics are updated twice.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, NotApplicable, Numerics, Proof, Requires, Treatment

FORWARD_ONLY = (
    "aten::conv2d",
    "aten::linear",
    "aten::batch_norm",
    "aten::layer_norm",
    "aten::scaled_dot_product_attention",
    "aten::gelu",
)
"""Operators that no derivative formula calls: in a backward pass they belong to a forward pass run again."""
FORWARD_PRODUCTS = ("convolution", "_pointwise", "conv2d", "addmm", "dot_product", "linear")
"""Parts of the names of products with which compiled code runs a forward pass."""


def recompute(model: Any, bench: Any) -> Any:
    """Wrap each repeated block of the workload where it stands in the model."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

    blocks = {id(block) for block in bench.workload.blocks(model)} if bench.workload.blocks else set()
    if not blocks:
        raise NotApplicable(f"the workload {bench.workload.name} names no repeated blocks to compute again")
    if getattr(getattr(model, "config", None), "use_cache", False):
        model.config.use_cache = False  # a cache would be filled a second time in the backward pass
    apply_activation_checkpointing(model, check_fn=lambda module: id(module) in blocks)
    return model


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Operators of the forward pass ran again inside the backward pass of the profiled step."""
    again = [op for op in trace.ops if op.backward and op.name in FORWARD_ONLY]
    products = [op for op in (*trace.matmuls(), *trace.convolutions()) if "backward" not in op.name]
    forwards = [op for op in products if any(part in op.name for part in FORWARD_PRODUCTS)]
    repeated = [op for op in forwards if op.backward]
    if not again and not repeated:
        raise NoEffect("no operator of the forward pass ran again inside the backward pass")
    return {
        "operators_again": len(again),
        "products_again": len(repeated),
        "products_forward": len(forwards) - len(repeated),
    }


def numerics(traits: frozenset[str]) -> Numerics:
    """The same arithmetic again, but BatchNorm's running statistics move twice as fast."""
    return "changes" if "batchnorm" in traits else "close"


TREATMENT = Treatment(
    name="gradient_checkpointing",
    summary="activations of the repeated blocks computed again in the backward pass",
    sources=(
        "https://docs.pytorch.org/docs/stable/checkpoint.html",
        "https://arxiv.org/abs/1604.06174",
    ),
    requires=Requires(modes=("train",)),
    hooks={"recompute": recompute},
    proof=Proof(after=proof),
    occupies=("activations",),
    addresses=("memory",),
    numerics=numerics,
)
