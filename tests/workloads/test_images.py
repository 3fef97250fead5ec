"""The image data: files like ImageNet's, the user's own folder, and what is wrong with either."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from harness.spec import UsageError
from harness.workloads.data import images

DRAWN = {"items": 64, "batch": 4, "classes": 10}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder: two classes, four small pictures."""
    rng = np.random.default_rng(0)
    for place in ("cats/a.jpg", "cats/deep/b.JPG", "dogs/c.png", "dogs/d.jpeg", "dogs/notes.txt"):
        path = tmp_path / "mine" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".txt":
            path.write_text("no image")
        else:
            Image.fromarray(rng.integers(0, 255, (60, 80, 3), dtype=np.uint8)).save(path)
    return tmp_path / "mine"


def check(source: Path, **changes: Any) -> Any:
    return images.prepare(source.parent / "cache", source, 0, **{**DRAWN, "batch": 2, **changes})


# ------------------------------------------------------------------------------------------------ generated


def test_generated_files_are_like_imagenets(cache: Path) -> None:
    """ImageNet's training files have 110 kB on average, most of them about 500 x 375 pixels."""
    paths = sorted(Path(images.prepare(cache, None, 0, **DRAWN).folder).rglob("*.jpg"))
    sizes = np.array([path.stat().st_size for path in paths])
    assert len(paths) == 64
    assert 90e3 < sizes.mean() < 130e3
    assert 15e3 < sizes.std() < 60e3
    assert sizes.min() > 20e3
    areas, entropies = [], []
    for path in paths[::4]:
        with Image.open(path) as image:
            assert image.format == "JPEG"
            assert image.mode == "RGB"
            areas.append(image.width * image.height)
            entropies.append(image.convert("L").entropy())
    assert 0.8 < np.mean(areas) / (500 * 375) < 1.2
    assert len(set(areas)) > 8, "sizes vary"
    assert min(entropies) > 5.5, "bits a pixel of the brightness alone: no flat pictures"
    assert max(entropies) < 7.95, "and no mere noise"


def test_classes_look_different(cache: Path) -> None:
    classes, samples = images.find_images(Path(images.prepare(cache, None, 0, **DRAWN).folder))
    assert len(classes) == 10
    colours = np.zeros((10, 3))
    for name, label in samples:
        with Image.open(Path(images.prepare(cache, None, 0, **DRAWN).folder) / name) as image:
            colours[label] += np.asarray(image.resize((1, 1), Image.Resampling.BOX), dtype=float)[0, 0] / 6.4
    distances = np.linalg.norm(colours[:, None] - colours[None, :], axis=2)[np.triu_indices(10, 1)]
    assert np.median(distances) > 30


def test_a_second_call_makes_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = images.prepare(cache, None, 0, **DRAWN)
    monkeypatch.setattr("harness.workloads.data.image_generator.generate", None)
    assert images.prepare(cache, None, 0, **DRAWN) == first


@pytest.mark.parametrize("damage", ["short", "missing", "manifest", "manifest gone"])
def test_damaged_data_are_made_again(damage: str, tmp_path: Path) -> None:
    params = {**DRAWN, "items": 4}
    first = images.prepare(tmp_path, None, 0, **params)
    victim = sorted(Path(first.folder).rglob("*.jpg"))[0]
    manifest = Path(first.folder) / "manifest.json"
    match damage:
        case "short":
            victim.write_bytes(victim.read_bytes()[:1000])
        case "missing":
            victim.unlink()
        case "manifest":
            manifest.write_text('{"files": ')
        case "manifest gone":
            manifest.unlink()
    assert images.prepare(tmp_path, None, 0, **params) == first
    assert victim.stat().st_size > 20e3
    assert [path.name for path in tmp_path.iterdir()] == [Path(first.folder).name]


def test_too_few_items_for_a_batch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="items=4 is less than one batch of 8; give items=8"):
        images.prepare(tmp_path, None, 0, items=4, batch=8, classes=2)


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"data cache .*file/cache cannot be written: Not a directory"):
        images.prepare(tmp_path / "file" / "cache", None, 0, **DRAWN)


# ------------------------------------------------------------------------------------------------ reading


def test_training_crops_by_seed_and_image_and_inference_does_not(cache: Path) -> None:
    folder = Path(images.prepare(cache, None, 0, **DRAWN).folder)

    def crop(mode: str, seed: int, before: int = 0) -> torch.Tensor:
        torch.manual_seed(before)
        return images.dataset(folder, mode, seed, image_size=48)[0][0]

    assert torch.equal(crop("train", 0), crop("train", 0, before=1)), "whatever was drawn before"
    assert not torch.equal(crop("train", 0), crop("train", 1))
    assert torch.equal(crop("infer", 0), crop("infer", 1))
    assert crop("train", 0).shape == crop("infer", 0).shape == (3, 48, 48)
    assert crop("train", 0).dtype == torch.float32


def test_reading_an_item_leaves_the_random_state_alone(cache: Path) -> None:
    dataset = images.dataset(Path(images.prepare(cache, None, 0, **DRAWN).folder), "train", 0, image_size=48)
    state = torch.get_rng_state()
    dataset[0]
    assert torch.equal(state, torch.get_rng_state())


def test_pixels_are_normalised_as_usual(tmp_path: Path) -> None:
    """A grey of 128: (128 / 255 - mean) / standard deviation, by channel."""
    (tmp_path / "grey").mkdir()
    Image.new("RGB", (64, 64), (128, 128, 128)).save(tmp_path / "grey" / "a.png")
    pixels, label = images.dataset(tmp_path, "infer", 0, image_size=8)[0]
    by_hand = torch.tensor([0.0740, 0.2052, 0.4265])
    torch.testing.assert_close(pixels[:, 4, 4], by_hand, atol=1e-4, rtol=0)
    assert label == 0


def test_other_modes_are_read_as_rgb(tmp_path: Path) -> None:
    (tmp_path / "mixed").mkdir()
    for mode in ("L", "RGBA", "P", "CMYK"):
        Image.new(mode, (40, 30)).save(tmp_path / "mixed" / f"{mode}.{'jpg' if mode == 'CMYK' else 'png'}")
    dataset = images.dataset(tmp_path, "train", 0, image_size=16)
    assert {tuple(dataset[index][0].shape) for index in range(4)} == {(3, 16, 16)}


# ------------------------------------------------------------------------------------------------ the user's own


def test_a_users_folder_is_taken_as_it_is(folder: Path) -> None:
    data = check(folder)
    assert data.folder == str(folder)
    assert data.items == 4
    dataset = images.dataset(folder, "train", 0, image_size=16)
    assert dataset.classes == ["cats", "dogs"]
    assert [label for _, label in dataset.samples] == [0, 0, 1, 1]


def test_the_digest_sees_contents_and_names(folder: Path) -> None:
    first = check(folder).digest
    assert check(folder).digest == first
    picture = folder / "dogs" / "d.jpeg"
    picture.write_bytes(picture.read_bytes() + b"\0")
    assert check(folder).digest != first
    picture.write_bytes(picture.read_bytes()[:-1])
    assert check(folder).digest == first, "contents as before, whatever the time of writing"
    picture.rename(folder / "dogs" / "e.jpeg")
    assert check(folder).digest != first


def test_the_digest_is_remembered_while_nothing_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = check(folder)
    monkeypatch.setattr("harness.workloads.data.cache._digest", None)
    assert check(folder) == first


def test_a_huge_folder_is_sampled_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = check(folder)
    monkeypatch.setattr("harness.workloads.data.cache.FULL_HASH_BYTES", 10)
    monkeypatch.setattr("harness.workloads.data.cache.SAMPLE_BYTES", 1)
    sampled = images.prepare(folder.parent / "cache2", folder, 0, **{**DRAWN, "batch": 2})
    assert whole.warnings == ()
    assert "the contents of 1 of 4 files" in sampled.warnings[0]
    assert sampled.digest != whole.digest


def test_an_empty_class_is_a_warning(folder: Path) -> None:
    (folder / "empty").mkdir()
    assert any("no images: empty" in warning for warning in check(folder).warnings)


def test_wrong_folders_are_refused_with_the_remedy(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere does not exist; give a folder with one sub-folder"):
        check(folder.parent / "nowhere")
    with pytest.raises(UsageError, match=r"notes\.txt is not a folder"):
        check(folder / "dogs" / "notes.txt")
    with pytest.raises(UsageError, match="has images, but not in sub-folders"):
        check(folder / "dogs")
    (folder.parent / "bare" / "class").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"bare has no images \(.jpg .jpeg"):
        check(folder.parent / "bare")
    with pytest.raises(UsageError, match="has 2 classes, the model tells 1 apart; give classes=2"):
        check(folder, classes=1)
    with pytest.raises(UsageError, match="has 4 images, a batch needs 5"):
        check(folder, batch=5)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_named(folder: Path) -> None:
    (folder / "cats").chmod(0)
    with pytest.raises(UsageError, match="cats cannot be read: Permission denied"):
        check(folder)


# ------------------------------------------------------------------------------------------------ bad images


def corrupt(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_corrupt_jpeg_is_named(folder: Path) -> None:
    corrupt(folder / "cats" / "a.jpg")
    dataset = images.dataset(folder, "train", 0, image_size=16)
    with pytest.raises(images.BadItem, match=r"cats/a.jpg cannot be decoded: .*truncated.*; repair or remove it"):
        dataset[0]
    dataset[1]


def test_a_corrupt_jpeg_is_named_across_a_worker_process(folder: Path) -> None:
    corrupt(folder / "cats" / "a.jpg")
    loader = DataLoader(images.dataset(folder, "train", 0, image_size=16), batch_size=2, num_workers=1)
    with pytest.raises(images.BadItem, match=r"cats/a.jpg cannot be decoded"):
        next(iter(loader))


def test_a_corrupt_jpeg_may_be_skipped_and_is_counted(folder: Path) -> None:
    corrupt(folder / "cats" / "a.jpg")
    dataset = images.dataset(folder, "infer", 0, image_size=16, on_bad_item="skip")
    pixels, label = dataset[0]
    assert torch.equal(pixels, dataset[1][0]), "the next good one stands in"
    assert (label, dataset.skipped) == (0, 1)
    assert len(list(DataLoader(dataset, batch_size=2, num_workers=1))) == 2
    assert dataset.skipped == 2, "what a worker process skips is counted too"


def test_nothing_but_corrupt_images(folder: Path) -> None:
    for name, _ in images.find_images(folder)[1]:
        (folder / name).write_bytes(b"nothing")
    dataset = images.dataset(folder, "train", 0, image_size=16, on_bad_item="skip")
    with pytest.raises(images.BadItem, match="none of the 4 images"):
        dataset[2]


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".bmp", ".ppm"])
def test_garbage_never_raises_anything_else(suffix: str, tmp_path: Path) -> None:
    """Bytes changed or cut anywhere: a picture or a BadItem, whatever the decoder raises inside."""
    path = tmp_path / f"victim{suffix}"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (24, 24, 3), dtype=np.uint8)).save(path)
    good, rng = path.read_bytes(), random.Random(0)
    for _ in range(60):
        bad = bytearray(good[: rng.randrange(1, len(good) + 1)])
        for _ in range(rng.randrange(4)):
            bad[rng.randrange(min(len(bad), 80))] = rng.randrange(256)
        path.write_bytes(bad)
        with contextlib.suppress(images.BadItem):
            assert images.decode(str(path)).mode == "RGB"
