"""Gives every convolution a bias, although the normalisation after it takes the mean away again: a frequent habit.

Costs an addition over each activation and a sum over each gradient, for parameters without effect: a before arm.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, NotApplicable, Proof, Requires, Treatment


def surgery(model: Any, bench: Any) -> Any:
    """Add a bias of zeros to every convolution that has none."""
    import torch

    bare = [module for module in model.modules() if isinstance(module, torch.nn.Conv2d) and module.bias is None]
    if not bare:
        raise NotApplicable(f"every convolution of the workload {bench.workload.name} has a bias already")
    for module in bare:
        module.bias = torch.nn.Parameter(torch.zeros(module.out_channels, dtype=module.weight.dtype))
    return model


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Every convolution that ran took a bias (compiled code adds it by itself: there every bias is a graph input)."""
    convolutions = [op for op in trace.convolutions() if "backward" not in op.name]
    biased = [op for op in convolutions if any(len(tensor.shape) == 1 for tensor in op.inputs[2:3])]
    if convolutions and len(biased) == len(convolutions):
        return {"convolutions": len(convolutions), "with_bias": len(biased)}
    entries = [tensor for op in trace.ops if op.name == "CompiledFunction" for tensor in op.inputs]
    weights = [tensor for tensor in entries if len(tensor.shape) == 4]
    vectors = [tensor for tensor in entries if len(tensor.shape) == 1]
    if not entries or len(vectors) < 5 * (len(weights) - 1):  # a bias, and four vectors of the normalisation
        raise NoEffect(f"{len(biased)} of {len(convolutions)} convolutions took a bias")
    return {"convolutions": len(convolutions), "vectors_entering_compiled_code": len(vectors)}


TREATMENT = Treatment(
    name="conv_bias",
    summary="a useless bias on every convolution before a normalisation",
    sources=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    requires=Requires(traits=("conv", "batchnorm")),
    hooks={"surgery": surgery},
    proof=Proof(after=proof),
    changes=("parameters",),
    addresses=("memory", "compute"),
    before=True,
)
