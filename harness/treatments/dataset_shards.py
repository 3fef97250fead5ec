"""Packs the data set into a few tar files first and reads those from front to back, as WebDataset does.

Helps where opening many small files is slow: network file systems, object stores, hard disks. Does little for local
files that the page cache holds. Pictures come in the order of the shards, shuffled within a buffer only.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment

FEWEST_SHARDS = 8
"""So that every loader worker has one of its own."""


def data(dataset: Any, bench: Any, pictures: int, buffer: int) -> Any:
    """Write the shards into a folder that goes with the process, and open them with WebDataset."""
    import torch
    import webdataset

    folder = tempfile.TemporaryDirectory(prefix="harness-shards-")
    paths = write_shards(dataset, Path(folder.name), min(pictures, max(1, len(dataset) // FEWEST_SHARDS)))
    served = torch.zeros(len(paths), dtype=torch.int64).share_memory_()  # by shard; shared with loader workers
    bench.kept["dataset_shards"] = {"folder": folder, "served": served}

    def finished(sample: dict[str, Any]) -> Any:
        served[paths.index(sample["__url__"])] += 1
        return dataset.finished(int(sample["__key__"]), _decoded(sample["picture"]))

    shards = webdataset.WebDataset(paths, shardshuffle=False, workersplitter=webdataset.split_by_worker)
    return shards.shuffle(buffer, initial=buffer).map(finished)


def write_shards(dataset: Any, folder: Path, pictures: int) -> list[str]:
    """Tar files of so many pictures each, as they lie on the disk, named by their place in the data set."""
    paths = []
    for start in range(0, len(dataset.samples), pictures):
        paths.append(str(folder / f"{start:08d}.tar"))
        with tarfile.open(paths[-1], "w") as shard:
            for index in range(start, min(start + pictures, len(dataset.samples))):
                shard.add(f"{dataset.folder}/{dataset.samples[index][0]}", arcname=f"{index:08d}.picture")
    return paths


def _decoded(picture: bytes) -> Any:
    import io

    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        return image.convert("RGB")


def loader(arguments: dict[str, Any], bench: Any, pictures: int, buffer: int) -> dict[str, Any]:
    """The order is the stream's, so the loader has none of its own."""
    return {key: value for key, value in arguments.items() if key not in ("shuffle", "sampler")}


def before(bench: Any, pictures: int, buffer: int) -> list[int]:
    """Pictures served from each shard by the end of the warm-up."""
    return bench.kept["dataset_shards"]["served"].tolist() if "dataset_shards" in bench.kept else []


def after(bench: Any, snapshot: list[int], trace: Any, pictures: int, buffer: int) -> dict[str, Any]:
    """Pictures came out of the shards since the warm-up."""
    now = before(bench, pictures, buffer)
    served = [new - old for new, old in zip(now, snapshot, strict=True)]
    if not any(served):
        raise NoEffect("no picture was read from a shard")
    return {"pictures_served": sum(served), "shards": len(served), "shards_read_from": sum(map(bool, served))}


TREATMENT = Treatment(
    name="dataset_shards",
    summary="the data set read from tar files in their order",
    sources=("https://github.com/webdataset/webdataset",),
    params={
        "pictures": Param(1000, "pictures in a shard; fewer if that leaves under 8", kind="int", minimum=1),
        "buffer": Param(100, "pictures shuffled among one another", kind="int", minimum=1),
    },
    requires=Requires(inputs=("loader",), packages=("webdataset",), traits=("image",)),
    hooks={"data": data, "loader": loader},
    proof=Proof(after=after, before=before),
    occupies=("data location", "decoder", "sampler"),
    changes=("data order", "data.location", "decoder"),
    addresses=("loader",),
    numerics=lambda traits: "changes",
)
