"""The image workloads' data: JPEG files made once from a seed or the user's own ImageFolder, augmented as usual."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.spec import DataRef, UsageError
from harness.workloads.data import cache as data_cache

if TYPE_CHECKING:
    import torch
    from PIL import Image

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm")
GENERATOR_VERSION = 1
"""Part of the cache's folder name: raise it with any change to `image_generator` that alters a pixel."""
GENERATED_CLASSES = 16
"""At most as many classes are drawn, so that each has several pictures; the model's head may be wider."""
MEAN, STANDARD_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's, by channel."""
_RESIZE_SHARE = 256 / 224
"""For inference: the shorter side before the centre is cut out, relative to the cut."""


class BadItem(UsageError):
    """An image that cannot be decoded; the message names its file."""


def prepare(
    cache: Path, source: Path | None, seed: int, *, items: int, batch: int, classes: int, **_others: Any
) -> DataRef:
    """Make the JPEG folder once, or check the user's ImageFolder; the folder either way has a sub-folder a class."""
    if source is not None:
        return _check_source(cache, source, batch, classes)
    if items < batch:
        raise UsageError(f"items={items} is less than one batch of {batch}; give items={batch} or more")
    drawn = min(classes, GENERATED_CLASSES)

    def make(folder: Path) -> int:
        from harness.workloads.data import image_generator

        return image_generator.generate(folder, seed, items, drawn)

    made = data_cache.make_once(cache, f"images-v{GENERATOR_VERSION}-seed{seed}-{items}x{drawn}", make)
    return DataRef(str(made.folder), made.digest, made.items)


def dataset(
    folder: Path,
    mode: str,
    seed: int,
    *,
    image_size: int,
    on_bad_item: Literal["fatal", "skip"] = "fatal",
    **_others: Any,
) -> ImageFolder:
    """Open a prepared folder. Random crops depend on the seed and the image alone, so that all arms see the same."""
    return ImageFolder(folder, image_size, augment=mode == "train", seed=seed, on_bad_item=on_bad_item)


def count_items(batch: Any) -> int:
    """The images in a batch of (images, labels)."""
    return int(batch[1].shape[0])


class ImageFolder:
    """A map-style dataset over sub-folders of images: (float32 [3, size, size] normalised, class index).

    Training gets ImageNet's usual random crop and flip, inference the centre. An image that cannot be decoded raises
    `BadItem`, or with on_bad_item="skip" the next good one stands in for it and `skipped` counts it.
    """

    def __init__(
        self,
        folder: Path,
        image_size: int,
        *,
        augment: bool,
        seed: int = 0,
        on_bad_item: Literal["fatal", "skip"] = "fatal",
    ) -> None:
        import torch

        self.folder = str(folder)
        self.classes, self.samples = find_images(folder)
        self.transform = _transform(image_size, augment)
        self.seed = seed
        self.on_bad_item = on_bad_item
        # in shared memory, so that what loader workers skip is counted where the loader lives
        self._skipped = torch.zeros((), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.on_bad_item == "fatal":
            return self._load(index)
        for step in range(len(self)):
            try:
                return self._load((index + step) % len(self))
            except BadItem:
                self._skipped += 1
        raise BadItem(f"none of the {len(self)} images in {self.folder} can be decoded; give another folder")

    @property
    def skipped(self) -> int:
        """How often an image could not be decoded and another took its place."""
        return int(self._skipped)

    def _load(self, index: int) -> tuple[torch.Tensor, int]:
        return self.finished(index, decode(os.path.join(self.folder, self.samples[index][0])))

    def finished(self, index: int, picture: Any) -> tuple[torch.Tensor, int]:
        """The item of a decoded picture (Pillow's, or uint8 [3, height, width]): cropped, scaled, with its label.

        Whatever process decodes it, and however many steps were taken before, the crop is the same.
        """
        import torch

        with torch.random.fork_rng(devices=()):
            torch.manual_seed(self.seed * len(self) + index)
            return self.transform(picture), self.samples[index][1]


def decode(path: str) -> Image.Image:
    """Read one image file as RGB; `BadItem` where Pillow cannot."""
    import struct

    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadItem(f"{path} cannot be decoded: {reason}; repair or remove it, or skip such files") from error


def find_images(folder: Path) -> tuple[list[str], list[tuple[str, int]]]:
    """List a folder's classes and its images as (path below the folder, class index), both sorted by name."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    samples = []
    for label, name in enumerate(classes):
        for place, folders, files in os.walk(folder / name, onerror=_raise, followlinks=True):
            folders.sort()
            below = os.path.relpath(place, folder)
            found = [file for file in sorted(files) if file.lower().endswith(EXTENSIONS)]
            samples += [(os.path.join(below, file), label) for file in found]
    return classes, samples


def _check_source(cache: Path, source: Path, batch: int, classes: int) -> DataRef:
    if not source.is_dir():
        problem = "is not a folder" if source.exists() else "does not exist"
        raise UsageError(f"data folder {source} {problem}; give a folder with one sub-folder of images a class")
    try:
        names, samples = find_images(source)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}; make it readable") from error
    if not samples:
        kinds = " ".join(EXTENSIONS)
        loose = any(path.name.lower().endswith(EXTENSIONS) for path in source.iterdir())
        found = "has images, but not in sub-folders" if loose else f"has no images ({kinds}) in its sub-folders"
        raise UsageError(f"data folder {source} {found}; give a folder with one sub-folder of images a class")
    if len(names) > classes:
        raise UsageError(
            f"data folder {source} has {len(names)} classes, the model tells {classes} apart; give classes={len(names)}"
        )
    if len(samples) < batch:
        raise UsageError(
            f"data folder {source} has {len(samples)} images, a batch needs {batch}; add some or lower batch"
        )
    digest, warnings = data_cache.user_files_digest(cache, source, [name for name, _ in samples])
    filled = {label for _, label in samples}
    empty = [name for label, name in enumerate(names) if label not in filled]
    if empty:
        warnings += (f"{len(empty)} sub-folders of {source} have no images: {', '.join(empty[:3])}",)
    return DataRef(str(source.resolve()), digest, len(samples), warnings)


def _transform(image_size: int, augment: bool) -> Any:
    import torch
    from torchvision.transforms import v2

    shape: list[Any] = (
        [v2.RandomResizedCrop(image_size, antialias=True), v2.RandomHorizontalFlip()]
        if augment
        else [v2.Resize(round(image_size * _RESIZE_SHARE), antialias=True), v2.CenterCrop(image_size)]
    )
    return v2.Compose(
        [*shape, v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STANDARD_DEVIATION)]
    )


def _raise(error: OSError) -> None:
    raise error
