"""Traces the model into TorchScript on its first batch and runs the trace, frozen or not, rather than the Python code.

Helps inference bound by Python overhead, with fixed shapes; freezing folds batch normalisation into the convolutions.
Branches that depend on data are lost without a word, and TorchScript is deprecated.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment


def compile_model(model: Any, bench: Any, freeze: bool) -> Any:
    """model -> a callable that traces at its first call."""
    import torch

    traced: list[Any] = []

    def run(images: Any) -> Any:
        if not traced:
            script = torch.jit.trace(model, images)
            traced.append(torch.jit.freeze(script) if freeze else script)
            expected, found = model(images), traced[0](images)
            difference = float((found - expected).abs().max() / expected.abs().max())
            bench.facts["torchscript_difference"] = difference
        return traced[0](images)

    return run


def proof(bench: Any, snapshot: Any, trace: Any, freeze: bool) -> dict[str, Any]:
    """A TorchScript method ran in the profiled step, and its first outputs were close to the model's."""
    calls = [op for op in trace.ops if op.name == "forward"]
    difference = bench.facts.get("torchscript_difference")
    if not calls or difference is None:
        raise NoEffect("no TorchScript method ran in the profiled step")
    if not difference < 0.05:
        raise NoEffect(f"the traced model's outputs differ by {difference:.1%} of the largest")
    return {"calls": len(calls), "largest_relative_difference": difference}


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
