"""What the treatments share that decode JPEG files otherwise than Pillow: the dataset's wrapper and the proof."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from harness.spec import NoEffect, Proof

Decode = Callable[[str], Any]
"""path of a JPEG file -> uint8 [3, height, width]; RuntimeError where it cannot"""

LARGEST_DIFFERENCE = 2.0
"""Of 255, on average over a picture: decoders round differently."""


class Decoded:
    """The dataset, with its JPEG files decoded by another function; other kinds are left to it."""

    def __init__(self, plain: Any, decode: Decode) -> None:
        import torch

        self.plain, self.decode = plain, decode
        self.decoded = torch.zeros((), dtype=torch.int64).share_memory_()  # shared with loader workers

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, index: int) -> Any:
        name, _ = self.plain.samples[index]
        if not name.lower().endswith((".jpg", ".jpeg")):
            return self.plain[index]
        try:
            image = self.decode(os.path.join(self.plain.folder, name))
        except RuntimeError:
            return self.plain[index]  # which names the file, or takes another
        self.decoded += 1
        return self.plain.finished(index, image)


def proof_of(decode: Decode) -> Proof:
    """That this very function decoded pictures since the warm-up, and that they look as Pillow's do."""

    def before(bench: Any) -> int:
        return int(getattr(bench.dataset, "decoded", 0))

    def after(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
        calls = before(bench) - snapshot
        if getattr(bench.dataset, "decode", None) is not decode or calls <= 0:
            raise NoEffect("the decoder was not called")
        difference = _difference_from_pillow(bench.dataset, decode)
        if difference > LARGEST_DIFFERENCE:
            raise NoEffect(f"its pixels differ from Pillow's by {difference:.1f} of 255 on average")
        return {"images_decoded": calls, "mean_pixel_difference": difference}

    return Proof(after=after, before=before)


def _difference_from_pillow(dataset: Decoded, decode: Decode) -> float:
    """Mean absolute difference over the first picture."""
    import numpy as np
    from PIL import Image

    path = os.path.join(dataset.plain.folder, dataset.plain.samples[0][0])
    theirs = np.asarray(Image.open(path).convert("RGB"), dtype=np.int16)
    return float(np.abs(decode(path).permute(1, 2, 0).numpy().astype(np.int16) - theirs).mean())
