"""Switches oneDNN off, as some old advice against crashes did: convolutions on a CPU fall back to plain loops and BLAS.

Hurts nearly always, in half precision most. A before arm: it shows what the library is worth.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def runtime(value: None, bench: Any) -> None:
    """Switch it off for the whole process."""
    import torch

    torch.backends.mkldnn.set_flags(False)


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Convolutions ran in the profiled step, and none of them in oneDNN."""
    convolutions = [op for op in trace.convolutions() if "backward" not in op.name]
    inside = trace.named("mkldnn")
    if inside or not convolutions:
        raise NoEffect(f"{len(inside)} oneDNN operators among {len(convolutions)} convolutions of the profiled step")
    return {"convolutions": len(convolutions), "operators": sorted({op.name for op in convolutions})}


TREATMENT = Treatment(
    name="onednn_off",
    summary="oneDNN switched off",
    sources=("https://docs.pytorch.org/docs/stable/backends.html#module-torch.backends.mkldnn",),
    requires=Requires(devices=("cpu",), traits=("conv",)),
    hooks={"runtime": runtime},
    proof=Proof(after=proof),
    changes=("mkldnn.enabled",),
    before=True,
)
