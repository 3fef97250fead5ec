"""ViT-Base on images, as timm builds it: the attention workload whose sequence never varies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.spec import Workload
from harness.workloads.data import images
from harness.workloads.nets import classifier

if TYPE_CHECKING:
    import torch


def model(
    mode: str, *, image_size: int, depth: int, width: int, heads: int, classes: int, **_others: Any
) -> torch.nn.Module:
    """Build vit_base_patch16_224, or the same design at another size."""
    import timm

    network: torch.nn.Module = timm.create_model(
        "vit_base_patch16_224",
        pretrained=False,
        img_size=image_size,
        depth=depth,
        embed_dim=width,
        num_heads=heads,
        num_classes=classes,
    )
    return network


def optimizer() -> tuple[Any, dict[str, Any]]:
    """AdamW, at a rate that needs no warm-up."""
    import torch

    return torch.optim.AdamW, {"lr": 3e-4, "weight_decay": 0.05}


def blocks(model: Any) -> list[Any]:
    """The transformer blocks."""
    return list(model.blocks)


_REAL = {"depth": 12, "width": 768, "heads": 12, "classes": 1000}

WORKLOAD = Workload(
    name="vit_base",
    summary="timm's ViT-Base (patch 16) on JPEG files",
    sources=("https://arxiv.org/abs/2010.11929", "https://huggingface.co/docs/timm"),
    unit="images",
    # no "conv": its one convolution only cuts the patches, so what helps convolutions has no work here
    traits=frozenset({"image", "attention", "gelu", "repeated_blocks"}),
    presets={
        "tiny": {"batch": 4, "image_size": 64, "depth": 2, "width": 96, "heads": 3, "classes": 10, "items": 64},
        "small": {"batch": 2, "image_size": 96, **_REAL, "items": 256},
        "full": {"batch": 128, "image_size": 224, **_REAL, "items": 2048},
    },
    standard=True,
    packages=("torch", "torchvision", "timm", "pillow", "numpy"),
    prepare=images.prepare,
    dataset=images.dataset,
    model=model,
    loss=classifier.loss,
    predict=classifier.predict,
    optimizer=optimizer,
    items=images.count_items,
    blocks=blocks,
)
