"""Traces the model into TorchScript on its first batch and runs the trace, frozen or not, rather than the Python code.

Helps inference bound by Python overhead, with fixed shapes; freezing folds batch normalisation into the convolutions.
Branches that depend on data are lost without a word, and TorchScript is deprecated.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment
from harness.treatments._exporting import Exported, close_outputs


def compile_model(model: Any, bench: Any, freeze: bool) -> Any:
    """model -> its trace, made at the first call."""

    def traced(model: Any, images: Any) -> Any:
        import torch

        script = torch.jit.trace(model, images)
        return torch.jit.freeze(script) if freeze else script

    return Exported(model, traced)


def proof(bench: Any, snapshot: Any, trace: Any, freeze: bool) -> dict[str, Any]:
    """A TorchScript method ran in the profiled step, and its first outputs were close to the model's."""
    calls = [op for op in trace.ops if op.name == "forward"]
    if not calls:
        raise NoEffect("no TorchScript method ran in the profiled step")
    return {"calls": len(calls), "largest_relative_difference": close_outputs(bench)}


TREATMENT = Treatment(
    name="torchscript_trace",
    summary="the model traced into TorchScript",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html",),
    params={"freeze": Param(True, "whether weights become constants", kind="bool")},
    requires=Requires(modes=("infer",), traits=("image",)),
    hooks={"compile": compile_model},
    proof=Proof(after=proof),
    addresses=("host", "launch"),
)
