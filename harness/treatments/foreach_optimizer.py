"""Updates parameters in few operators over lists of tensors, rather than one small operator a parameter and term.

Helps models with many small parameters on a GPU, where it is torch's default already: there the proof finds it in the
baseline. Takes memory for its intermediate lists, and gains little on a CPU, which works through the lists one tensor
at a time.
"""

from __future__ import annotations

import inspect
from typing import Any

from harness.spec import NoEffect, NotApplicable, Proof, Requires, Treatment


def optimizer(value: Any, bench: Any) -> Any:
    """Ask for the form over lists, which the class must have."""
    kind, arguments = value
    if "foreach" not in inspect.signature(kind).parameters:
        raise NotApplicable(
            f"the optimizer {kind.__name__} of the workload {bench.workload.name} has no form over lists"
        )
    return kind, {**{key: item for key, item in arguments.items() if key != "fused"}, "foreach": True}


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Operators over lists ran in the optimizer's step (zeroing and clipping use lists by themselves)."""
    ops = [
        op for op in trace.named("aten::_foreach_") if "_foreach_zero" not in op.name and "_foreach_norm" not in op.name
    ]
    kernels = [kernel.name for kernel in trace.kernels if "multi_tensor_apply" in kernel.name]
    if trace.named("_fused_") or not (ops or kernels):
        raise NoEffect("no aten::_foreach_* update in the profiled step")
    return {"operators": sorted({op.name for op in ops}), "calls": len(ops), "kernels": len(kernels)}


TREATMENT = Treatment(
    name="foreach_optimizer",
    summary="the optimizer's update as operators over lists of tensors",
    sources=("https://docs.pytorch.org/docs/stable/optim.html",),
    requires=Requires(modes=("train",)),
    hooks={"optimizer": optimizer},
    proof=Proof(after=proof),
    occupies=("optimizer implementation",),
    addresses=("launch", "memory"),
)
