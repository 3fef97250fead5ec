"""Runs forward pass and loss under autocast to float16, with the loss scaled so that small gradients do not vanish.

Helps on GPUs whose half-precision units know no bfloat16 (before Ampere). Steps whose gradients overflow are skipped
and the scale is halved: a scale that starts too high costs the first steps. Reading whether to skip makes the host
wait for the device.
"""

from __future__ import annotations

import re
from typing import Any

from harness.spec import NoEffect, Param, Proof, Treatment

KERNEL = re.compile(r"f16f16|fp16|h884|h1688|h16816|half|nvjet_h", re.IGNORECASE)
"""Device kernels on float16, for steps replayed from a graph, which show no operators."""


def forward(run: Any, bench: Any, init_scale: float) -> Any:
    """Wrap batch -> loss; the backward pass follows the dtypes of the forward pass by itself."""
    import torch

    kind = torch.device(bench.device).type

    def under_autocast(batch: Any) -> Any:
        with torch.autocast(kind, dtype=torch.float16):
            return run(batch)

    return under_autocast


def backward(run: Any, bench: Any, init_scale: float) -> Any:
    """Scale the loss first."""
    import torch

    scaler = bench.kept["amp_fp16"] = torch.amp.GradScaler(torch.device(bench.device).type, init_scale=init_scale)
    return lambda loss: run(scaler.scale(loss))


def apply(run: Any, bench: Any, init_scale: float) -> Any:
    """Unscale and step, unless a gradient is not finite; says whether the parameters were stepped."""
    scaler, optimizer = bench.kept["amp_fp16"], bench.optimizer

    def step() -> bool:
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        return bool(scaler.get_scale() >= scale)

    return step


def proof(bench: Any, snapshot: Any, trace: Any, init_scale: float) -> dict[str, Any]:
    """At least half of the matrix products and convolutions took float16 operands, and gradients were unscaled."""
    products = [op for op in (*trace.matmuls(), *trace.convolutions()) if op.inputs]
    low = [op for op in products if op.inputs[0].dtype == "float16"]
    kernels = [kernel.name for kernel in trace.kernels if KERNEL.search(kernel.name)] if not products else []
    if 2 * len(low) < len(products) or not (low or kernels):
        raise NoEffect(f"{len(low)} of {len(products)} matrix products and convolutions took float16 operands")
    evidence = {"products": len(products), "in_float16": len(low), "kernels_in_float16": len(kernels)}
    if bench.mode == "train":
        scaler = bench.kept.get("amp_fp16")
        if scaler is None or not (trace.named("_amp_") or kernels):
            raise NoEffect("no gradient was unscaled in the profiled step")
        evidence["scale"] = scaler.get_scale()
    return evidence


TREATMENT = Treatment(
    name="amp_fp16",
    summary="forward pass and loss under autocast to float16, with loss scaling",
    sources=(
        "https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
        "https://arxiv.org/abs/1710.03740",
    ),
    params={"init_scale": Param(65536.0, "the first loss scale", kind="float", minimum=1)},
    hooks={"forward": forward, "update.backward": backward, "update.apply": apply},
    proof=Proof(after=proof),
    occupies=("precision",),
    changes=("dtype",),
    addresses=("compute", "memory"),
)
