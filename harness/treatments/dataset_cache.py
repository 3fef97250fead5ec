"""Keeps each decoded picture in a file the first time it is read, and reads that file ever after.

Helps from the second epoch on, where decoding bounds the loader. The files are about ten times as large as the JPEG
files; where they do not stay in the page cache, reading them can take longer than decoding. Random crops are drawn
afresh each time.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment

FOLDERS = {"memory": "/dev/shm", "disk": "."}
"""A file system in memory, or the trial's own folder, which goes with it."""


class Cached:
    """The dataset, with its decoded pictures kept in files that all loader workers share."""

    def __init__(self, plain: Any, folder: str) -> None:
        import torch

        self.plain = plain
        self.place = tempfile.mkdtemp(prefix="harness-cache-", dir=folder)
        self.hits = torch.zeros((), dtype=torch.int64).share_memory_()
        weakref.finalize(self, shutil.rmtree, self.place, ignore_errors=True)

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, index: int) -> Any:
        import numpy as np
        import torch

        name, _ = self.plain.samples[index]
        path = Path(self.place, f"{index}.npy")
        if path.exists():
            picture = torch.from_numpy(np.load(path))
            self.hits += 1
        else:
            picture = self._decoded(name, path)
        return self.plain.finished(index, picture)

    def _decoded(self, name: str, path: Path) -> Any:
        """Decode a picture and keep it; written under another name first, since workers share the folder."""
        import numpy as np
        from torchvision.transforms.v2.functional import pil_to_tensor

        from harness.workloads.data.images import decode  # type: ignore[import-untyped]  # linked in at run time

        picture = pil_to_tensor(decode(f"{self.plain.folder}/{name}"))
        with tempfile.NamedTemporaryFile(dir=self.place, delete=False) as file:
            np.save(file, picture.numpy())
        Path(file.name).replace(path)
        return picture


def data(dataset: Any, bench: Any, where: str) -> Any:
    """Put the cache in front of the dataset's transforms."""
    return Cached(dataset, FOLDERS[where])


def before(bench: Any, where: str) -> int:
    """Pictures found in the cache by the end of the warm-up."""
    return int(getattr(bench.dataset, "hits", 0))


def after(bench: Any, snapshot: int, trace: Any, where: str) -> dict[str, Any]:
    """Pictures were found in the cache since the warm-up; how full it is says whether an epoch is through."""
    if not isinstance(bench.dataset, Cached):
        raise NoEffect("the dataset has no cache")
    hits = before(bench, where) - snapshot
    if hits <= 0:
        raise NoEffect("no picture was found in the cache since the warm-up: the data are larger than the timed part")
    kept = sum(1 for _ in Path(bench.dataset.place).glob("*.npy"))
    return {"hits": hits, "pictures_kept": kept, "pictures": len(bench.dataset)}


TREATMENT = Treatment(
    name="dataset_cache",
    summary="decoded pictures kept in files from the first epoch on",
    sources=("https://docs.pytorch.org/docs/stable/data.html",),
    params={"where": Param("memory", "where the files lie", choices=tuple(FOLDERS))},
    requires=Requires(inputs=("loader",), packages=("torchvision",), traits=("image",)),
    hooks={"data": data},
    proof=Proof(after=after, before=before),
    occupies=("decoder",),
    changes=("decoder",),
    addresses=("loader",),
)
