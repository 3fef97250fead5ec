"""Micro-batches of every kind of batch, and batches too small to split."""

from __future__ import annotations

import pytest
import torch

from harness.spec import NotApplicable
from harness.treatments import gradient_accumulation


def split(batch: object, parts: int) -> list[object]:
    return gradient_accumulation.split(lambda whole: [whole], None, parts=parts)(batch)  # type: ignore[no-any-return]


def test_every_tensor_is_cut_along_its_first_dimension() -> None:
    batch = {"images": torch.arange(12).view(4, 3), "more": (torch.arange(4), "a name")}
    first, second = split(batch, 2)
    assert first["images"].tolist() == [[0, 1, 2], [3, 4, 5]]  # type: ignore[index]
    assert second["more"][0].tolist() == [2, 3]  # type: ignore[index]
    assert second["more"][1] == "a name"  # type: ignore[index]


@pytest.mark.parametrize(("size", "words"), [(2, "cannot be split into 4 parts"), (6, "4 equal parts")])
def test_a_batch_that_does_not_split_is_not_applicable(size: int, words: str) -> None:
    with pytest.raises(NotApplicable, match=words):
        split((torch.zeros(size, 3), torch.zeros(size)), 4)


def test_results_move_where_the_model_looks_across_the_batch() -> None:
    assert gradient_accumulation.numerics(frozenset({"conv", "batchnorm"})) == "changes"
    assert gradient_accumulation.numerics(frozenset({"attention"})) == "close"
