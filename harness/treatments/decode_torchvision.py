"""Decodes JPEG files with torchvision's decoder (libjpeg-turbo) straight into a tensor, rather than with Pillow.

Helps where decoding bounds the loader: no detour over a Pillow image. The random crop then works on tensors, whose
resampling differs from Pillow's by rounding, and can be slower for large pictures. Files of other kinds are left to
Pillow.
"""

from __future__ import annotations

import os
from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


class TorchvisionDecoded:
    """The dataset, with its JPEG files decoded by torchvision."""

    def __init__(self, plain: Any) -> None:
        import torch

        self.plain = plain
        self.decoded = torch.zeros((), dtype=torch.int64).share_memory_()  # shared with loader workers

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, index: int) -> Any:
        name, _ = self.plain.samples[index]
        if not name.lower().endswith((".jpg", ".jpeg")):
            return self.plain[index]
        try:
            image = decode(os.path.join(self.plain.folder, name))
        except RuntimeError:
            return self.plain[index]  # which names the file, or takes another
        self.decoded += 1
        return self.plain.finished(index, image)


def decode(path: str) -> Any:
    """A JPEG file as uint8 [3, height, width]."""
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


def data(dataset: Any, bench: Any) -> Any:
    """Put the decoder in front of the dataset's transforms."""
    return TorchvisionDecoded(dataset)


def before(bench: Any) -> int:
    """Images decoded by the end of the warm-up."""
    return int(getattr(bench.dataset, "decoded", 0))


def after(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
    """The decoder was called since the warm-up, and its pixels are close to Pillow's."""
    import numpy as np
    from PIL import Image

    calls = before(bench) - snapshot
    if not isinstance(bench.dataset, TorchvisionDecoded) or calls <= 0:
        raise NoEffect("torchvision's decoder was not called")
    path = os.path.join(bench.dataset.plain.folder, bench.dataset.plain.samples[0][0])
    theirs = np.asarray(Image.open(path).convert("RGB"), dtype=np.int16)
    difference = float(np.abs(decode(path).permute(1, 2, 0).numpy().astype(np.int16) - theirs).mean())
    if difference > 2:
        raise NoEffect(f"its pixels differ from Pillow's by {difference:.1f} of 255 on average")
    return {"images_decoded": calls, "mean_pixel_difference": difference}


TREATMENT = Treatment(
    name="decode_torchvision",
    summary="JPEG files decoded by torchvision",
    sources=("https://docs.pytorch.org/vision/stable/generated/torchvision.io.decode_jpeg.html",),
    requires=Requires(inputs=("loader",), packages=("torchvision",), traits=("image",)),
    hooks={"data": data},
    proof=Proof(after=after, before=before),
    occupies=("decoder",),
    changes=("decoder",),
    addresses=("loader",),
)
