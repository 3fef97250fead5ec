"""Restricts attention to a window by a dense mask: sparse attention as it is often shown.

Saves nothing: all products are computed, and the mask is read beside them; fused kernels that take no mask are ruled
out. attention_block_sparse is the form that leaves blocks out. A before arm.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment
from harness.treatments._windows import keeper, replace_attention

OPERATOR = "aten::scaled_dot_product_attention"


def surgery(model: Any, bench: Any) -> Any:
    """Give the attention a mask of its full size."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    positions = torch.arange(bench.params["sequence_length"], device=bench.device)
    keep = keeper(bench.params["window"], bench.params["global_tokens"])
    mask = keep(positions[:, None], positions[None, :])

    def masked(query: Any, key: Any, value: Any) -> Any:
        return scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return replace_attention(model, bench, masked)


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Every attention of the profiled step took a mask of its full size; the products it computed are told."""
    length = bench.params["sequence_length"]
    calls = trace.named("scaled_dot_product")
    masked = [op for op in calls if any(tensor.shape[-2:] == (length, length) for tensor in op.inputs)]
    outer = [op for op in calls if op.name == OPERATOR]
    if not masked or any(op not in masked for op in outer):
        raise NoEffect(f"{len(masked)} of {len(calls)} attention operators took a mask of {length} by {length}")
    pairs = sum(op.inputs[0].shape[-2] * op.inputs[1].shape[-2] for op in outer)
    return {"operators_with_mask": len(masked), "query_key_pairs_computed_a_head": pairs}


TREATMENT = Treatment(
    name="attention_dense_mask",
    summary="attention to a window by a dense mask",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        "https://arxiv.org/abs/2004.05150",
    ),
    requires=Requires(traits=("attention_function",)),
    hooks={"surgery": surgery},
    proof=Proof(after=proof),
    occupies=("attention",),
    changes=("attention.window",),
    addresses=("compute",),
    numerics=lambda traits: "changes",
    before=True,
)
