"""ResNet-50 on images, as torchvision builds it: the convolution and batch-norm workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.spec import UsageError, Workload
from harness.workloads.data import images
from harness.workloads.nets import classifier

if TYPE_CHECKING:
    import torch

BLOCKS_PER_STAGE = {14: (1, 1, 1, 1), 26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""By depth in layers; 14 and 26 are the usual small ones of the same bottleneck design."""


def model(mode: str, *, depth: int, width: int, classes: int, **_others: Any) -> torch.nn.Module:
    """Build the network; `width` is torchvision's width_per_group, 64 for the standard one."""
    from torchvision.models.resnet import Bottleneck, ResNet

    if depth not in BLOCKS_PER_STAGE:
        known = ", ".join(map(str, BLOCKS_PER_STAGE))
        raise UsageError(f"depth={depth} is no depth of this network; give one of {known}")
    return ResNet(Bottleneck, list(BLOCKS_PER_STAGE[depth]), num_classes=classes, width_per_group=width)


def optimizer() -> tuple[Any, dict[str, Any]]:
    """SGD with momentum, at a rate that small batches bear too."""
    import torch

    return torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9, "weight_decay": 1e-4}


def blocks(model: Any) -> list[Any]:
    """The bottlenecks of the four stages."""
    return [block for stage in (model.layer1, model.layer2, model.layer3, model.layer4) for block in stage]


WORKLOAD = Workload(
    name="resnet50",
    summary="torchvision's ResNet-50 on JPEG files",
    sources=("https://arxiv.org/abs/1512.03385", "https://docs.pytorch.org/vision/stable/models/resnet.html"),
    unit="images",
    traits=frozenset({"conv", "batchnorm", "image", "repeated_blocks"}),
    presets={
        "tiny": {"batch": 4, "image_size": 48, "depth": 14, "width": 16, "classes": 10, "items": 64},
        "small": {"batch": 2, "image_size": 96, "depth": 50, "width": 64, "classes": 1000, "items": 256},
        "full": {"batch": 256, "image_size": 224, "depth": 50, "width": 64, "classes": 1000, "items": 2048},
    },
    standard=True,
    packages=("torch", "torchvision", "pillow", "numpy"),
    prepare=images.prepare,
    dataset=images.dataset,
    model=model,
    loss=classifier.loss,
    predict=classifier.predict,
    optimizer=optimizer,
    items=images.count_items,
    blocks=blocks,
)
