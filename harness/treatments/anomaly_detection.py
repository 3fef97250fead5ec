"""Leaves autograd's anomaly detection on: a stack trace kept for every operator, and every gradient searched for NaN.

Finds the operator that made a NaN, and is meant for that hour only: the checks read every gradient again, and on a
GPU wait for it.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def runtime(value: None, bench: Any) -> None:
    """Switch it on for the whole process."""
    import torch

    torch.autograd.set_detect_anomaly(True)


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Gradients were checked for NaN in the backward pass of the profiled step."""
    checks = [op for op in trace.named("aten::isnan", "aten::ne") if op.backward]
    reductions = [op for op in trace.ops if op.name == "aten::any" and op.backward]
    if not checks or not reductions:
        raise NoEffect("no gradient was checked for NaN in the backward pass")
    return {"gradients_checked": len(reductions)}


TREATMENT = Treatment(
    name="anomaly_detection",
    summary="autograd's anomaly detection left on",
    sources=("https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection",),
    requires=Requires(modes=("train",)),
    hooks={"runtime": runtime},
    proof=Proof(after=proof),
    changes=("autograd.anomaly",),
    addresses=("host",),
    numerics=lambda traits: "identical",
    before=True,
)
