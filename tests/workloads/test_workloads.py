"""The shipped workloads are the published models, learn from their data, and cost nothing to list."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from harness.registry import load_registry
from harness.spec import UsageError, Workload

WORKLOADS = load_registry().workloads
TRAINABLE = ("resnet50", "vit_base", "gpt2_small", "bert_base")
PARAMETERS = {"resnet50": 25_557_032, "vit_base": 86_567_656, "gpt2_small": 124_439_808, "bert_base": 109_514_298}
"""As the libraries and papers state them."""
BLOCKS = {"resnet50": 16, "vit_base": 12, "gpt2_small": 12, "bert_base": 12}


def open_tiny(name: str, cache: Path, mode: str = "train", **changes: Any) -> tuple[Workload, Any, Iterator[Any]]:
    """Build a workload's tiny preset as a trial does: (workload, model, its batches for ever)."""
    workload = WORKLOADS[name]
    params = {**workload.presets["tiny"], **changes}
    assert workload.prepare
    assert workload.dataset
    assert workload.model
    folder = Path(workload.prepare(cache, None, 0, **params).folder)
    torch.manual_seed(0)
    model = workload.model(mode, **params).train(mode == "train")
    dataset = workload.dataset(folder, mode, 0, on_bad_item="fatal", **params)
    loader = DataLoader(
        dataset,
        batch_size=params["batch"],
        shuffle=True,
        drop_last=True,
        collate_fn=workload.collate,
        generator=torch.Generator().manual_seed(0),
    )
    return workload, model, (batch for _ in itertools.count() for batch in loader)


def train(workload: Workload, model: Any, batches: Iterator[Any], steps: int) -> list[float]:
    """The loss of every step."""
    assert workload.loss
    assert workload.optimizer
    kind, arguments = workload.optimizer()
    optimizer = kind(model.parameters(), **arguments)
    losses = []
    for batch in itertools.islice(batches, steps):
        loss = workload.loss(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def tensors(batch: Any) -> list[torch.Tensor]:
    return list(batch.values()) if isinstance(batch, dict) else list(batch)


# ------------------------------------------------------------------------------------------------ learning


@pytest.mark.parametrize(
    ("name", "steps", "share_left"), [("resnet50", 24, 0.8), ("vit_base", 24, 0.8), ("bert_base", 40, 0.95)]
)
def test_tiny_learns_its_data(name: str, steps: int, share_left: float, cache: Path) -> None:
    """Two batches again and again, as resident input has them."""
    workload, model, batches = open_tiny(name, cache, dropout=0.0)
    resident = itertools.cycle(list(itertools.islice(batches, 2)))
    losses = train(workload, model, resident, steps)
    assert sum(losses[-4:]) < share_left * sum(losses[:4])


def test_gpt2_learns_from_a_stream_it_never_sees_twice(cache: Path) -> None:
    workload, model, batches = open_tiny("gpt2_small", cache, items=1024)
    losses = train(workload, model, batches, 100)  # 100 batches of 8: less than one pass
    assert losses[0] > 6.5, "at the start, all 1000 tokens are about equally likely: ln(1000) = 6.9"
    assert sum(losses[-10:]) / 10 < losses[0] - 1.0


# ------------------------------------------------------------------------------------------------ shapes and counts


def test_logits_have_a_row_for_every_prediction(cache: Path) -> None:
    expected = {"resnet50": (4, 10), "vit_base": (4, 10), "gpt2_small": (8, 32, 1000), "bert_base": (8, 32, 1000)}
    for name, shape in expected.items():
        workload, model, batches = open_tiny(name, cache, "infer")
        assert workload.predict
        with torch.inference_mode():
            logits = workload.predict(model, next(batches))
        assert logits.shape == shape, name
        assert logits.std() > 0, name


@pytest.mark.parametrize("name", TRAINABLE)
def test_a_batch_splits_along_its_first_dimension(name: str, cache: Path) -> None:
    workload, model, batches = open_tiny(name, cache)
    batch = next(batches)
    sizes = {tensor.shape[0] for tensor in tensors(batch)}
    assert sizes == {workload.presets["tiny"]["batch"]}
    halves = [tensor[: tensor.shape[0] // 2] for tensor in tensors(batch)]
    half = dict(zip(batch, halves, strict=True)) if isinstance(batch, dict) else halves
    assert workload.loss
    assert torch.isfinite(workload.loss(model, half))


def test_resnet50_trains_on_micro_batches_of_one(cache: Path) -> None:
    """Batch norm needs several values a channel; the tiny pictures must leave them."""
    workload, model, batches = open_tiny("resnet50", cache)
    pictures, labels = next(batches)
    assert workload.loss
    assert torch.isfinite(workload.loss(model, (pictures[:1], labels[:1])))


def test_items_are_counted_as_by_hand(cache: Path) -> None:
    counts = {}
    for name in TRAINABLE:
        workload, _, batches = open_tiny(name, cache)
        batch = next(batches)
        assert workload.items
        counts[name] = workload.items(batch)
        if name == "bert_base":
            by_hand = sum(int(token != 0) for document in batch["input_ids"].tolist() for token in document)
    assert counts == {"resnet50": 4, "vit_base": 4, "gpt2_small": 8 * 32, "bert_base": by_hand}
    assert 0 < by_hand < 8 * 32, "padding is not counted"


# ------------------------------------------------------------------------------------------------ the models


@pytest.mark.parametrize("preset", ["small", "full"])
@pytest.mark.parametrize("name", TRAINABLE)
def test_small_and_full_are_the_published_models(name: str, preset: str) -> None:
    workload = WORKLOADS[name]
    assert workload.model
    assert workload.blocks
    params = dict(workload.presets[preset])
    if name == "vit_base":
        params["image_size"] = 224  # its position embedding grows with the image
    with torch.device("meta"):
        model = workload.model("train", **params)
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]
    assert len(workload.blocks(model)) == BLOCKS[name]


@pytest.mark.parametrize("name", TRAINABLE)
def test_blocks_are_modules_of_the_model(name: str, cache: Path) -> None:
    workload, model, _ = open_tiny(name, cache)
    assert workload.blocks
    blocks = workload.blocks(model)
    assert len(blocks) >= 2
    assert {id(block) for block in blocks} <= {id(module) for module in model.modules()}
    assert len({type(block) for block in blocks}) == 1


@pytest.mark.parametrize("name", ["gpt2_small", "bert_base"])
def test_dropout_zero_takes_all_randomness_away(name: str, cache: Path) -> None:
    def twice(dropout: float) -> bool:
        workload, model, batches = open_tiny(name, cache, dropout=dropout)
        batch = next(batches)
        assert workload.loss
        return bool(workload.loss(model, batch) == workload.loss(model, batch))

    assert twice(0.0)
    assert not twice(0.1)


def test_bert_does_not_look_at_padding(cache: Path) -> None:
    workload, model, batches = open_tiny("bert_base", cache, "infer")
    batch = next(batches)
    padding = batch["attention_mask"] == 0
    assert padding.any()
    scribbled = {**batch, "input_ids": torch.where(padding, 7, batch["input_ids"])}
    assert workload.predict
    with torch.inference_mode():
        before, after = workload.predict(model, batch), workload.predict(model, scribbled)
    torch.testing.assert_close(before[~padding], after[~padding])


def test_gpt2_does_not_look_ahead(cache: Path) -> None:
    workload, model, batches = open_tiny("gpt2_small", cache, "infer")
    batch = next(batches)
    changed = {**batch, "input_ids": batch["input_ids"].clone()}
    changed["input_ids"][:, -1] = 7
    assert workload.predict
    with torch.inference_mode():
        before, after = workload.predict(model, batch), workload.predict(model, changed)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.equal(before[:, -1], after[:, -1])


def test_an_unknown_depth_lists_those_there_are() -> None:
    workload = WORKLOADS["resnet50"]
    assert workload.model
    with pytest.raises(UsageError, match=r"depth=49 .* 14, 26, 50, 101, 152"):
        workload.model("train", **{**workload.presets["small"], "depth": 49})


# ------------------------------------------------------------------------------------------------ the definitions


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_every_preset_gives_every_parameter(name: str) -> None:
    presets = WORKLOADS[name].presets
    assert list(presets) == ["tiny", "small", "full"]
    assert len({frozenset(params) for params in presets.values()}) == 1
    assert not WORKLOADS[name].needs_torch or {"batch", "items"} <= set(presets["tiny"])


def test_the_matrix_is_of_the_standard_four() -> None:
    assert {name for name, workload in WORKLOADS.items() if workload.standard} == set(TRAINABLE)


def test_noop_does_nothing() -> None:
    workload = WORKLOADS["noop"]
    assert workload.plain
    assert not workload.needs_torch
    bench = workload.plain("train", 0)
    bench.step()
    assert bench.items_per_step == 1


def test_listing_loads_nothing_heavy_and_takes_no_time() -> None:
    code = (
        "import importlib, sys, time, harness.workloads, harness.spec, json, hashlib, shutil, random, uuid, pathlib\n"
        "for name in sys.argv[1:]:\n"
        "    start = time.process_time(); importlib.import_module(f'harness.workloads.{name}')\n"
        "    assert time.process_time() - start < 0.05, (name, time.process_time() - start)\n"
        "heavy = {'torch', 'torchvision', 'timm', 'transformers', 'tokenizers', 'numpy', 'PIL'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = run(code, *WORKLOADS)
    assert done.stdout.strip() == "[]", done.stderr


def test_preparing_loads_no_torch(cache: Path) -> None:
    code = (
        "import sys, pathlib\nfrom harness.registry import load_registry\n"
        "for workload in load_registry().workloads.values():\n"
        "    if workload.name in sys.argv[2:]:\n"
        "        workload.prepare(pathlib.Path(sys.argv[1]), None, 1, **{**workload.presets['tiny'], 'items': 8})\n"
        "print('torch' in sys.modules)"
    )
    done = run(code, str(cache), *TRAINABLE)
    assert done.stdout.strip() == "False", done.stderr


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_two_processes_that_prepare_at_once_agree(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\nfrom harness.workloads.data import images\n"
        "print(images.prepare(pathlib.Path(sys.argv[1]), None, 0, items=12, batch=4, classes=3).digest)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) for _ in "abc"
    ]
    digests = {process.communicate()[0].strip() for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(digests) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["images-v1-seed0-12x3"], "nothing is left behind"


Prepare = Callable[..., Any]


@pytest.mark.parametrize("name", TRAINABLE)
def test_the_digest_follows_the_seed(name: str, tmp_path: Path) -> None:
    workload = WORKLOADS[name]
    params = {**workload.presets["tiny"], "items": 8}
    prepare: Prepare | None = workload.prepare
    assert prepare
    first, other = prepare(tmp_path, None, 0, **params), prepare(tmp_path, None, 1, **params)
    again = prepare(tmp_path / "elsewhere", None, 0, **params)
    assert first.digest == again.digest != other.digest
    assert first.items == 8
