"""Restricts attention to a window by leaving out whole blocks of it: FlexAttention with a block mask, compiled.

Helps with long sequences, in proportion to the blocks left out. Little is left out where the window is not much
smaller than the sequence; compiling takes seconds. On a CPU it predicts only, since it has no backward pass there.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, NotApplicable, Proof, Requires, Treatment
from harness.treatments._windows import keeper, replace_attention


def surgery(model: Any, bench: Any) -> Any:
    """Compile the attention for a mask that is known block by block."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    device = torch.device(bench.device)
    if device.type == "cpu" and bench.mode == "train":
        raise NotApplicable("FlexAttention has no backward pass on CPUs")
    length = bench.params["sequence_length"]
    keep = keeper(bench.params["window"], bench.params["global_tokens"])
    mask = create_block_mask(lambda batch, head, query, key: keep(query, key), None, None, length, length, device.type)
    compiled = torch.compile(flex_attention)
    bench.kept["attention_block_sparse"] = mask
    return replace_attention(model, bench, lambda query, key, value: compiled(query, key, value, block_mask=mask))


def before(bench: Any) -> dict[str, int]:
    """What had been compiled when the warm-up ended."""
    return dict(bench.compile_counters())


def proof(bench: Any, snapshot: dict[str, int], trace: Any) -> dict[str, Any]:
    """Blocks are left out, no other attention ran, and compiled code did."""
    mask = bench.kept.get("attention_block_sparse")
    others = trace.named("scaled_dot_product")
    compiled = trace.named("CompiledFxGraph", "flex_attention", "cudaGraphLaunch")
    if mask is None or others or not compiled or not snapshot["frames"]:
        raise NoEffect(f"{len(others)} operators of the full attention ran in the profiled step")
    left_out = float(mask.sparsity()) / 100
    if not left_out > 0:
        raise NoEffect("the window leaves out no block of the attention")
    return {"share_of_blocks_left_out": left_out, "compiled_graphs_in_step": len(compiled)}


TREATMENT = Treatment(
    name="attention_block_sparse",
    summary="attention to a window, whole blocks left out",
    sources=(
        "https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html",
        "https://arxiv.org/abs/2412.05496",
    ),
    requires=Requires(traits=("attention_function",)),
    hooks={"surgery": surgery},
    proof=Proof(after=proof, before=before),
    occupies=("attention",),
    changes=("attention.window",),
    addresses=("compute", "memory"),
    numerics=lambda traits: "changes",
)
