"""Updates all parameters in one fused operator a dtype and device, rather than several small operators a parameter.

Helps models with many small parameters, whose update is bound by launches and by reading the same memory again and
again. Does little where forward and backward dominate; not every optimizer class has a fused form.
"""

from __future__ import annotations

import inspect
from typing import Any

from harness.spec import NoEffect, NotApplicable, Proof, Requires, Treatment


def optimizer(value: Any, bench: Any) -> Any:
    """Ask for the fused form, which the class must have."""
    kind, arguments = value
    if "fused" not in inspect.signature(kind).parameters:
        raise NotApplicable(f"the optimizer {kind.__name__} of the workload {bench.workload.name} has no fused form")
    return kind, {**{key: item for key, item in arguments.items() if key != "foreach"}, "fused": True}


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """A fused update operator (or, in a replayed graph, its kernel) ran in the profiled step."""
    ops = [op for op in trace.named("_fused_") if op.name.startswith("aten::_fused_") and op.name.endswith("_")]
    kernels = [kernel.name for kernel in trace.kernels if "FusedOptimizer" in kernel.name or "FusedSgd" in kernel.name]
    if not ops and not kernels:
        raise NoEffect("no aten::_fused_* update in the profiled step")
    names = sorted({op.name for op in ops})
    return {
        "operators": names,
        "calls": len(ops),
        "tensors": sum(len(op.inputs) for op in ops),
        "kernels": len(kernels),
    }


TREATMENT = Treatment(
    name="fused_optimizer",
    summary="the optimizer's update as one fused operator",
    sources=(
        "https://docs.pytorch.org/docs/stable/optim.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html",
    ),
    requires=Requires(modes=("train",)),
    hooks={"optimizer": optimizer},
    proof=Proof(after=proof),
    occupies=("optimizer implementation",),
    addresses=("launch", "memory"),
)
