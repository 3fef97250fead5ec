"""Decodes JPEG files with torchvision's decoder (libjpeg-turbo) straight into a tensor, rather than with Pillow.

Helps where decoding bounds the loader: no detour over a Pillow image. The random crop then works on tensors, whose
resampling differs from Pillow's by rounding, and can be slower for large pictures. Files of other kinds are left to
Pillow.
"""

from __future__ import annotations

from typing import Any

from harness.spec import Requires, Treatment
from harness.treatments._decoding import Decoded, proof_of


def decode(path: str) -> Any:
    """A JPEG file as uint8 [3, height, width]."""
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


def data(dataset: Any, bench: Any) -> Any:
    """Put the decoder in front of the dataset's transforms."""
    return Decoded(dataset, decode)


TREATMENT = Treatment(
    name="decode_torchvision",
    summary="JPEG files decoded by torchvision",
    sources=("https://docs.pytorch.org/vision/stable/generated/torchvision.io.decode_jpeg.html",),
    requires=Requires(inputs=("loader",), packages=("torchvision",), traits=("image",)),
    hooks={"data": data},
    proof=proof_of(decode),
    occupies=("decoder",),
    changes=("decoder",),
    addresses=("loader",),
)
