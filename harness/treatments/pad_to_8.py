"""Pads the vocabulary to a multiple of 8, so that the widest matrix product of a language model meets the fast kernels.

Helps on tensor cores, whose kernels want multiples of 8 (16 bytes in half precision) and are slower or absent
otherwise; 64 or 128 can be better yet. Adds rows that no token uses. Sizes that fit already gain nothing.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, NotApplicable, Param, Proof, Requires, Treatment


def surgery(model: Any, bench: Any, multiple: int) -> Any:
    """Widen the embedding and the head tied to it."""
    size = model.get_input_embeddings().weight.shape[0]
    if size % multiple == 0:
        raise NotApplicable(f"the vocabulary of {size} is a multiple of {multiple} already")
    model.resize_token_embeddings(pad_to_multiple_of=multiple, mean_resizing=False)
    return model


def proof(bench: Any, snapshot: Any, trace: Any, multiple: int) -> dict[str, Any]:
    """Every side of every matrix product in the profiled step is a multiple."""
    sides = [side for op in trace.matmuls() for tensor in op.inputs for side in tensor.shape[-2:]]
    odd = sorted({side for side in sides if side % multiple and side > 1})
    if odd or not sides:
        raise NoEffect(
            f"matrix products have the sides {', '.join(map(str, odd))}" if odd else "no matrix product seen"
        )
    return {"products": len(trace.matmuls()), "widest": max(sides)}


TREATMENT = Treatment(
    name="pad_to_8",
    summary="the vocabulary padded to a multiple of 8",
    sources=(
        "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    params={"multiple": Param(8, "what sizes are padded to", kind="int", minimum=2)},
    requires=Requires(traits=("text",)),
    hooks={"surgery": surgery},
    proof=Proof(after=proof),
    changes=("parameters",),
    addresses=("compute",),
    numerics=lambda traits: "changes",
)
