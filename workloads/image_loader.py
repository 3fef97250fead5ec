"""The image input pipeline alone: files read, decoded and augmented into batches, with no model that uses them.

What a treatment of the loader gains is not hidden here by a model that is slower than the loader anyway.
"""

from __future__ import annotations

from harness.spec import Workload
from harness.workloads.data import images

WORKLOAD = Workload(
    name="image_loader",
    summary="JPEG files to batches, no model: the input pipeline alone",
    sources=(
        "https://docs.pytorch.org/docs/stable/data.html",
        "https://docs.pytorch.org/vision/stable/transforms.html",
    ),
    unit="images",
    traits=frozenset({"image"}),
    presets={
        "tiny": {"batch": 4, "image_size": 48, "classes": 10, "items": 64},
        "small": {"batch": 32, "image_size": 224, "classes": 1000, "items": 512},
        "full": {"batch": 256, "image_size": 224, "classes": 1000, "items": 8192},
    },
    modes=("train",),
    inputs=("loader",),
    packages=("torch", "torchvision", "pillow", "numpy"),
    prepare=images.prepare,
    dataset=images.dataset,
    items=images.count_items,
)
