"""Computes GELU in a TorchScript function, as was done before torch.compile to have its element-wise steps fused.

Fuses on a GPU where TorchScript's fuser is on. Slower than torch's own GELU operator elsewhere: several passes over
memory for one, and intermediate results kept for the backward pass. TorchScript is deprecated.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, NotApplicable, Proof, Requires, Treatment

FUNCTION = "scripted_gelu"


def surgery(model: Any, bench: Any) -> Any:
    """Replace every GELU module."""
    import torch

    @torch.jit.script
    def scripted_gelu(x: torch.Tensor) -> torch.Tensor:
        return x * 0.5 * (1.0 + torch.erf(x * 0.7071067811865476))

    class ScriptedGelu(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return scripted_gelu(x)

    found = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if "GELU" in type(child).__name__.upper() and not list(child.children())
    ]
    if not found:
        raise NotApplicable(f"no module of the workload {bench.workload.name} is a GELU")
    for parent, name in found:
        setattr(parent, name, ScriptedGelu())
    return model


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """The scripted function ran in the profiled step, and torch's own operator did not."""
    calls = [op for op in trace.ops if op.name.rpartition(".")[2] == FUNCTION]
    own = [op for op in trace.ops if op.name == "aten::gelu"]
    if not calls or own:
        raise NoEffect(f"the scripted function ran {len(calls)} times, torch's own operator {len(own)} times")
    return {"calls": len(calls)}


TREATMENT = Treatment(
    name="torchscript_gelu",
    summary="GELU in a TorchScript function",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.jit.script.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    requires=Requires(traits=("gelu",)),
    hooks={"surgery": surgery},
    proof=Proof(after=proof),
    addresses=("memory", "launch"),
)
