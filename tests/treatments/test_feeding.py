"""What treatments of the feed do to a batch, and what their proofs make of a trace; nothing here needs a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.spec import NoEffect, NotApplicable
from harness.treatments import create_on_device, device_prefetch
from tests.treatments.traces import gemms, trace


def bench(*traits: str, **more: Any) -> Any:
    workload = SimpleNamespace(name="toy", traits=frozenset(traits))
    return SimpleNamespace(workload=workload, device="cpu", params={"classes": 5}, **more)


def test_a_mask_is_made_of_the_tokens_that_were_moved() -> None:
    moved = []

    def move(batch: dict[str, Any]) -> dict[str, Any]:
        moved.append(set(batch))
        return batch

    feed = create_on_device.feed(move, bench("padding", "text"))
    batch = {
        "input_ids": torch.tensor([[5, 6, 0], [7, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 0], [1, 0, 0]]),
        "labels": torch.zeros(2, 3),
    }
    made = feed(batch)
    assert moved == [{"input_ids", "labels"}]
    assert torch.equal(made["attention_mask"], batch["attention_mask"])
    assert made["attention_mask"].dtype == batch["attention_mask"].dtype


def test_a_mask_that_the_tokens_do_not_tell_is_refused() -> None:
    feed = create_on_device.feed(lambda batch: batch, bench("padding"))
    batch = {"input_ids": torch.tensor([[0, 6, 0]]), "attention_mask": torch.tensor([[1, 1, 0]])}
    with pytest.raises(NotApplicable, match="also stands for something else"):
        feed(batch)


def test_labels_are_drawn_where_the_pictures_are() -> None:
    feed = create_on_device.feed(lambda batch: batch, bench("image"))
    pictures, labels = feed((torch.ones(64, 3), torch.full((64,), 99)))
    assert pictures.sum() == 192
    assert set(labels.tolist()) == set(range(5))
    with pytest.raises(NotApplicable, match="nothing in a batch of toy"):
        create_on_device.feed(lambda batch: batch, bench("text"))


def test_a_copy_for_every_tensor_is_no_sign_of_it() -> None:
    batch = bench("image", sample_batch=lambda: (torch.ones(1), torch.ones(1)))
    copy = ("Memcpy HtoD (Pageable -> Device)", 7, 0, 5)
    assert create_on_device.proof(batch, None, trace((), [copy, *gemms(3)]))["copies_to_device"] == 1
    for copies in ([], [copy, copy]):
        with pytest.raises(NoEffect):
            create_on_device.proof(batch, None, trace((), [*copies, *gemms(3)]))


def test_copies_on_a_second_stream_are_told_from_those_in_line() -> None:
    apart = trace((), [("Memcpy HtoD (Pinned -> Device)", 20, 50, 100), *gemms(3)])
    evidence = device_prefetch.proof(bench(), None, apart)
    assert evidence["on_a_second_stream"] == 1
    assert evidence["copying_ns"] == 100
    assert evidence["beside_computing_ns"] == 40 + 50, "kernels run from 0 to 90 and from 100 to 190"
    for in_line in ([("Memcpy HtoD (Pinned -> Device)", 7, 50, 100), *gemms(3)], gemms(3)):
        with pytest.raises(NoEffect, match="stream of their own"):
            device_prefetch.proof(bench(), None, trace((), in_line))
