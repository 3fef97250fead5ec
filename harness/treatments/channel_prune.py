"""Takes the weakest channels out of the inner convolutions of every bottleneck: smaller convolutions, less arithmetic.

Helps in proportion where the convolutions are large enough to fill the device. Widths that are no multiple of 8 may
run slower than the full ones, and accuracy falls until the model is trained on.
"""

from __future__ import annotations

import math
from statistics import mean
from typing import Any

from harness.spec import NoEffect, NotApplicable, Param, Proof, Requires, Treatment

PARTS = ("conv1", "bn1", "conv2", "bn2", "conv3")


def surgery(model: Any, bench: Any, share: float) -> Any:
    """Narrow the first and the second convolution of each bottleneck, and what reads from them."""
    import torch

    blocks = [
        module
        for module in model.modules()
        if all(hasattr(module, part) for part in PARTS) and module.conv2.groups == 1
    ]
    if not blocks:
        raise NotApplicable(f"the workload {bench.workload.name} has no bottlenecks to take channels out of")

    def mean_size() -> float:
        return mean(module.weight.numel() for module in model.modules() if isinstance(module, torch.nn.Conv2d))

    before = mean_size()
    for block in blocks:
        first, second = _strongest(block.conv1, share), _strongest(block.conv2, share)
        block.conv1, block.bn1 = _taken(block.conv1, out=first), _norm(block.bn1, first)
        block.conv2, block.bn2 = _taken(block.conv2, out=second, into=first), _norm(block.bn2, second)
        block.conv3 = _taken(block.conv3, into=second)
    bench.kept["channel_prune"] = {"before": before, "after": mean_size()}
    return model


def _strongest(convolution: Any, share: float) -> Any:
    strength = convolution.weight.detach().abs().flatten(1).sum(1)
    kept = max(1, round(len(strength) * (1 - share)))
    return strength.topk(kept).indices.sort().values


def _taken(old: Any, out: Any = None, into: Any = None) -> Any:
    """A convolution with these output and input channels only."""
    import torch

    weight = old.weight.detach()
    weight = weight if out is None else weight[out]
    weight = weight if into is None else weight[:, into]
    new = torch.nn.Conv2d(
        weight.shape[1],
        weight.shape[0],
        old.kernel_size,
        old.stride,
        old.padding,
        old.dilation,
        bias=old.bias is not None,
    )
    new.weight = torch.nn.Parameter(weight.clone())
    if old.bias is not None:
        new.bias = torch.nn.Parameter(old.bias.detach() if out is None else old.bias.detach()[out])
    return new


def _norm(old: Any, kept: Any) -> Any:
    import torch

    new = torch.nn.BatchNorm2d(len(kept), old.eps, old.momentum)
    state = {key: value[kept] if value.dim() else value for key, value in old.state_dict().items()}
    new.load_state_dict(state)
    return new


def proof(bench: Any, snapshot: Any, trace: Any, share: float) -> dict[str, Any]:
    """The convolutions of the forward pass ran with the smaller weights: their mean size is that after pruning."""
    convolutions = [op for op in trace.convolutions() if not op.backward and len(op.inputs) > 1]
    size = bench.kept.get("channel_prune")
    ran = mean(math.prod(op.inputs[1].shape) for op in convolutions) if convolutions else 0.0
    if not size or not ran or size["after"] >= size["before"] or abs(ran / size["after"] - 1) > 0.001:
        raise NoEffect(f"the convolutions ran with {ran:.0f} weights each on average, not with fewer than before")
    return {"mean_weights_before": size["before"], "mean_weights_run_with": ran, "convolutions": len(convolutions)}


TREATMENT = Treatment(
    name="channel_prune",
    summary="the weakest channels taken out of the bottlenecks",
    sources=("https://arxiv.org/abs/1608.08710",),
    params={"share": Param(0.3, "share of the inner channels", kind="float", minimum=0.05, maximum=0.95)},
    requires=Requires(traits=("conv", "batchnorm")),
    hooks={"surgery": surgery},
    proof=Proof(after=proof),
    occupies=("channels",),
    changes=("parameters", "flops"),
    addresses=("compute", "memory"),
    numerics=lambda traits: "changes",
)
