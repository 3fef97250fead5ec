"""Decodes the whole data set once, before the first step, into one block of memory that all loader workers share.

Helps where decoding or the disk bounds the loader and the decoded pictures fit in memory (about ten times the JPEG
files). Takes that memory and one pass over the data before the first step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


class Preloaded:
    """The dataset, with its decoded pictures in shared memory."""

    def __init__(self, plain: Any) -> None:
        import torch
        from torchvision.transforms.v2.functional import pil_to_tensor

        from harness.workloads.data.images import decode  # type: ignore[import-untyped]  # linked in at run time

        pictures = [pil_to_tensor(decode(f"{plain.folder}/{name}")) for name, _ in plain.samples]
        self.plain = plain
        self.shapes = [tuple(picture.shape) for picture in pictures]
        self.starts = [0, *torch.tensor([picture.numel() for picture in pictures]).cumsum(0).tolist()]
        self.pixels = torch.cat([picture.flatten() for picture in pictures]).share_memory_()
        self.served = torch.zeros((), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, index: int) -> Any:
        picture = self.pixels[self.starts[index] : self.starts[index + 1]].view(self.shapes[index])
        self.served += 1
        return self.plain.finished(index, picture)


def data(dataset: Any, bench: Any) -> Any:
    """Decode everything now."""
    return Preloaded(dataset)


def before(bench: Any) -> int:
    """Pictures served by the end of the warm-up."""
    return int(getattr(bench.dataset, "served", 0))


def after(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
    """Pictures came from the block since the warm-up, and it is mapped as shared memory here and in every worker."""
    served = before(bench) - snapshot
    if not isinstance(bench.dataset, Preloaded) or served <= 0:
        raise NoEffect("no picture was served from shared memory")
    workers = [process.pid for process in bench.processes() if process.name() == "pt_data_worker"]
    mapped = [_maps(pid, bench.dataset.pixels.data_ptr()) for pid in ("self", *workers)]
    if not all(mapped):
        raise NoEffect(f"{mapped.count(False)} of {len(mapped)} processes do not map the shared pictures")
    return {"pictures_served": served, "bytes": bench.dataset.pixels.numel(), "processes_mapping": len(mapped)}


def _maps(pid: int | str, address: int) -> bool:
    """Whether a process has shared memory at this address (forked workers keep the addresses)."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, flags = line.split()[:2]
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= address < high:
            return flags.endswith("s")
    return False


TREATMENT = Treatment(
    name="shared_memory_preload",
    summary="all pictures decoded once, into memory that the workers share",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.Tensor.share_memory_.html",),
    requires=Requires(inputs=("loader",), packages=("torchvision",), traits=("image",)),
    hooks={"data": data},
    proof=Proof(after=after, before=before),
    occupies=("decoder",),
    changes=("decoder",),
    addresses=("loader",),
)
