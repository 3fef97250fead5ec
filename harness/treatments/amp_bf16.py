"""Runs forward pass and loss under autocast to bfloat16; weights, gradients and the optimizer stay in float32.

Helps where the device has bfloat16 units (tensor cores from Ampere on, AMX or AVX512-BF16 on CPUs): more arithmetic a
second and half the activation memory. No loss scaling is needed, for the exponent range is float32's. Hurts on
processors that emulate bfloat16, and small models, where the casts cost more than they save.
"""

from __future__ import annotations

import re
from typing import Any

from harness.spec import NoEffect, Proof, Treatment

KERNEL = re.compile(r"bf16|bfloat16|nvjet_t", re.IGNORECASE)
"""Device kernels on bfloat16, for steps replayed from a graph, which show no operators."""


def forward(run: Any, bench: Any) -> Any:
    """Wrap batch -> loss; the backward pass follows the dtypes of the forward pass by itself."""
    import torch

    kind = torch.device(bench.device).type

    def under_autocast(batch: Any) -> Any:
        with torch.autocast(kind, dtype=torch.bfloat16):
            return run(batch)

    return under_autocast


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """At least half of the matrix products and convolutions that ran took bfloat16 operands."""
    products = [op for op in (*trace.matmuls(), *trace.convolutions()) if op.inputs]
    low = [op for op in products if op.inputs[0].dtype == "bfloat16"]
    if products:
        if 2 * len(low) < len(products):
            raise NoEffect(f"{len(low)} of {len(products)} matrix products and convolutions took bfloat16 operands")
        return {"products": len(products), "in_bfloat16": len(low)}
    kernels = [kernel.name for kernel in trace.kernels if KERNEL.search(kernel.name)]
    if not kernels:
        raise NoEffect("no matrix product or convolution on bfloat16 in the profiled step")
    return {"kernels_in_bfloat16": len(kernels), "kernel": kernels[0]}


TREATMENT = Treatment(
    name="amp_bf16",
    summary="forward pass and loss under autocast to bfloat16",
    sources=(
        "https://docs.pytorch.org/docs/stable/amp.html",
        "https://arxiv.org/abs/1905.12322",
    ),
    hooks={"forward": forward},
    proof=Proof(after=proof),
    occupies=("precision",),
    changes=("dtype",),
    addresses=("compute", "memory"),
)
