"""Copies the data set to another folder first, such as a file system in memory or a local disk, and reads it there.

Helps where the files lie on a slow or shared disk and fit in the new place. Does nothing once the operating system
has them in its page cache; the copy takes its time before the first step.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from harness.spec import NoEffect, NotApplicable, Param, Proof, Requires, Treatment


def data(dataset: Any, bench: Any, dir: str) -> Any:
    """Copy the folder and open the copy; it is removed when the process ends."""
    if not Path(dir).is_dir():
        raise NotApplicable(f"there is no folder {dir} to copy the data to")
    reader = _reader(dataset)
    place = tempfile.mkdtemp(prefix="harness-data-", dir=dir)
    weakref.finalize(reader, shutil.rmtree, place, ignore_errors=True)
    reader.folder = str(shutil.copytree(reader.folder, Path(place) / "copy"))
    return dataset


def _reader(dataset: Any) -> Any:
    """The dataset that opens the files, under those that other treatments put in front of it."""
    while hasattr(dataset, "plain"):
        dataset = dataset.plain
    return dataset


def proof(bench: Any, snapshot: Any, trace: Any, dir: str) -> dict[str, Any]:
    """The files of the dataset in use lie under the folder, on this kind of file system."""
    reader = _reader(bench.dataset)
    folder = Path(reader.folder).resolve()
    if not folder.is_relative_to(Path(dir).resolve()):
        raise NoEffect(f"the data are read from elsewhere than {dir}")
    first = folder / reader.samples[0][0]
    return {"file_system": _file_system(folder), "bytes_of_first_file": first.stat().st_size}


def _file_system(folder: Path) -> str:
    """The type of the mount that holds the folder."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [(len(point), kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(holding, default=(0, "unknown"))[1]


TREATMENT = Treatment(
    name="dataset_location",
    summary="the data set copied to another folder and read there",
    sources=("https://docs.kernel.org/filesystems/tmpfs.html",),
    params={"dir": Param("/dev/shm", "the folder")},
    requires=Requires(inputs=("loader",), traits=("image",)),
    hooks={"data": data},
    proof=Proof(after=proof),
    occupies=("data location",),
    changes=("data.location",),
    addresses=("loader",),
    numerics=lambda traits: "identical",
)
