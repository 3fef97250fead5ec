"""Lets float32 matrix products and convolutions on CUDA round their operands to TensorFloat-32 (10 bits of mantissa).

Helps float32 training on tensor cores from Ampere on, several times for large products. Convolutions do so by default
already. Under autocast little is left to gain; results lose digits where sums cancel.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def runtime(value: None, bench: Any) -> None:
    """Set both through the precision settings: mixing them with the older allow_tf32 raises."""
    import torch

    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.cudnn.conv.fp32_precision = "tf32"  # type: ignore[attr-defined]


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """A product by one loses the digits that TensorFloat-32 has no room for; kernel names are noted beside it."""
    import torch

    fine = torch.full((256, 256), 1 + 2.0**-12, device=bench.device)
    product = fine @ torch.eye(256, device=bench.device)
    if bool((product == fine).all()):
        raise NoEffect("a float32 product keeps all its digits: it was not computed in TensorFloat-32")
    named = [kernel.name for kernel in trace.kernels if "tf32" in kernel.name.lower()]
    return {"digits_lost": float((fine - product).abs().max()), "kernels_named_tf32": len(named)}


TREATMENT = Treatment(
    name="tf32",
    summary="float32 products and convolutions in TensorFloat-32",
    sources=("https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",),
    requires=Requires(devices=("cuda",), capability=(8, 0)),
    hooks={"runtime": runtime},
    proof=Proof(after=proof),
    occupies=("float32 precision",),
    changes=("precision.global", "precision.cuda.matmul", "precision.cudnn.conv"),
    addresses=("compute",),
)
