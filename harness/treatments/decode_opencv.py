"""Decodes JPEG files with OpenCV, rather than with Pillow.

Helps where decoding bounds the loader and OpenCV was built with a faster JPEG library. The random crop then works on
tensors, whose resampling differs from Pillow's by rounding. OpenCV has threads of its own, which are switched off
here: every loader worker is one already. Files of other kinds are left to Pillow.
"""

from __future__ import annotations

from typing import Any

from harness.spec import Requires, Treatment
from harness.treatments._decoding import Decoded, proof_of


def decode(path: str) -> Any:
    """A JPEG file as uint8 [3, height, width]."""
    import cv2  # an optional package
    import torch

    cv2.setNumThreads(0)
    pixels = cv2.imread(path, cv2.IMREAD_COLOR_RGB)
    if pixels is None:
        raise RuntimeError(f"OpenCV cannot decode {path}")
    return torch.from_numpy(pixels).permute(2, 0, 1)


def data(dataset: Any, bench: Any) -> Any:
    """Put the decoder in front of the dataset's transforms."""
    return Decoded(dataset, decode)


TREATMENT = Treatment(
    name="decode_opencv",
    summary="JPEG files decoded by OpenCV",
    sources=("https://docs.opencv.org/4.x/d4/da8/group__imgcodecs.html",),
    requires=Requires(inputs=("loader",), packages=(("opencv-python-headless", "opencv-python"),), traits=("image",)),
    hooks={"data": data},
    proof=proof_of(decode),
    occupies=("decoder",),
    changes=("decoder",),
    addresses=("loader",),
)
