"""Decodes JPEG files with OpenCV, rather than with Pillow.

Helps where decoding bounds the loader and OpenCV was built with a faster JPEG library. The random crop then works on
tensors, whose resampling differs from Pillow's by rounding. OpenCV has threads of its own, which are switched off
here: every loader worker is one already. Files of other kinds are left to Pillow.
"""

from __future__ import annotations

import os
from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


class OpencvDecoded:
    """The dataset, with its JPEG files decoded by OpenCV."""

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
    import cv2  # type: ignore[import-not-found]  # an optional package
    import torch

    cv2.setNumThreads(0)
    pixels = cv2.imread(path, cv2.IMREAD_COLOR_RGB)
    if pixels is None:
        raise RuntimeError(f"OpenCV cannot decode {path}")
    return torch.from_numpy(pixels).permute(2, 0, 1)


def data(dataset: Any, bench: Any) -> Any:
    """Put the decoder in front of the dataset's transforms."""
    return OpencvDecoded(dataset)


def before(bench: Any) -> int:
    """Images decoded by the end of the warm-up."""
    return int(getattr(bench.dataset, "decoded", 0))


def after(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
    """The decoder was called since the warm-up, and its pixels are close to Pillow's."""
    import numpy as np
    from PIL import Image

    calls = before(bench) - snapshot
    if not isinstance(bench.dataset, OpencvDecoded) or calls <= 0:
        raise NoEffect("OpenCV's decoder was not called")
    path = os.path.join(bench.dataset.plain.folder, bench.dataset.plain.samples[0][0])
    theirs = np.asarray(Image.open(path).convert("RGB"), dtype=np.int16)
    difference = float(np.abs(decode(path).permute(1, 2, 0).numpy().astype(np.int16) - theirs).mean())
    if difference > 2:
        raise NoEffect(f"its pixels differ from Pillow's by {difference:.1f} of 255 on average")
    return {"images_decoded": calls, "mean_pixel_difference": difference}


TREATMENT = Treatment(
    name="decode_opencv",
    summary="JPEG files decoded by OpenCV",
    sources=("https://docs.opencv.org/4.x/d4/da8/group__imgcodecs.html",),
    requires=Requires(inputs=("loader",), packages=("opencv-python-headless",), traits=("image",)),
    hooks={"data": data},
    proof=Proof(after=after, before=before),
    occupies=("decoder",),
    changes=("decoder",),
    addresses=("loader",),
)
