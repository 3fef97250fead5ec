"""Multiplies convolution weights by a mask that is zero for the weakest channels: pruning as it is often shown.

Saves nothing by itself: the full convolution runs on zeros, and a multiplication is added for each weight. It is the
first half of pruning; channel_prune is the second, which takes the channels out.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment


def surgery(model: Any, bench: Any, share: float) -> Any:
    """Mask the output channels with the smallest weights, in every convolution."""
    import torch
    from torch.nn.utils import prune

    for module in list(model.modules()):
        if isinstance(module, torch.nn.Conv2d):
            prune.ln_structured(module, "weight", amount=share, n=1, dim=0)
    return model


def proof(bench: Any, snapshot: Any, trace: Any, share: float) -> dict[str, Any]:
    """The weights that the convolutions last ran with have so many zero channels; the arithmetic is counted."""
    weights = [module.weight for module in bench.model.modules() if type(module).__name__ == "Conv2d"]
    channels = sum(weight.shape[0] for weight in weights)
    zero = sum(int((weight.detach().flatten(1).abs().sum(1) == 0).sum()) for weight in weights)
    if not channels or zero < 0.8 * share * channels:
        raise NoEffect(f"{zero} of {channels} channels are zero, not a share of {share:g}")
    convolutions = [op for op in trace.convolutions() if "backward" not in op.name]
    executed = sum(op.inputs[1].shape[0] for op in convolutions if len(op.inputs) > 1)
    return {"channels": channels, "zero_channels": zero, "channels_computed_in_a_step": executed}


TREATMENT = Treatment(
    name="channel_mask",
    summary="the weakest channels multiplied by zero",
    sources=("https://docs.pytorch.org/tutorials/intermediate/pruning_tutorial.html",),
    params={"share": Param(0.3, "share of the channels", kind="float", minimum=0.05, maximum=0.95)},
    requires=Requires(traits=("conv",)),
    hooks={"surgery": surgery},
    proof=Proof(after=proof),
    occupies=("channels",),
    changes=("parameters",),
    addresses=("compute",),
    numerics=lambda traits: "changes",
)
