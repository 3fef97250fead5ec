"""Puts documents of similar length into a batch and cuts the batch to its longest, so that less padding is computed.

Helps models whose documents differ much in length. Batches are no longer drawn at random over all lengths, their
shapes vary (a compiled model compiles again for new ones), and the work of a step varies with them.
"""

from __future__ import annotations

import random
from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment


class Buckets:
    """A batch sampler: shuffles, sorts stretches of several batches by length, and shuffles the batches."""

    def __init__(self, lengths: list[int], batch: int, batches_sorted: int, seed: int) -> None:
        self.lengths, self.batch, self.stretch = lengths, batch, batch * batches_sorted
        self.random = random.Random(seed)

    def __len__(self) -> int:
        return len(self.lengths) // self.batch

    def __iter__(self) -> Any:
        order = list(range(len(self.lengths)))
        self.random.shuffle(order)
        batches = []
        for start in range(0, len(order), self.stretch):
            stretch = sorted(order[start : start + self.stretch], key=self.lengths.__getitem__)
            batches += [stretch[first : first + self.batch] for first in range(0, len(stretch), self.batch)]
        batches = [batch for batch in batches if len(batch) == self.batch]
        self.random.shuffle(batches)
        return iter(batches)


class Cut:
    """Collates a batch and cuts every tensor in it to the longest document."""

    def __init__(self, collate: Any) -> None:
        self.collate = collate

    def __call__(self, items: list[Any]) -> Any:
        from torch.utils.data import default_collate

        batch = (self.collate or default_collate)(items)
        longest = int(batch["attention_mask"].sum(1).max())
        return {key: value[:, :longest] for key, value in batch.items()}


def loader(arguments: dict[str, Any], bench: Any, batches_sorted: int) -> dict[str, Any]:
    """Replace the sampler, and cut the batches."""
    lengths = [int(bench.dataset[index]["attention_mask"].sum()) for index in range(len(bench.dataset))]
    kept = {
        key: value for key, value in arguments.items() if key not in ("batch_size", "shuffle", "drop_last", "sampler")
    }
    sampler = Buckets(lengths, arguments["batch_size"], batches_sorted, bench.seed)
    return {**kept, "batch_sampler": sampler, "collate_fn": Cut(arguments.get("collate_fn"))}


def proof(bench: Any, snapshot: Any, trace: Any, batches_sorted: int) -> dict[str, Any]:
    """In a new epoch, begun here, the share of padding is at most half of what documents padded to full length have."""
    masks = [batch["attention_mask"] for batch, _ in zip(bench.loader, range(20), strict=False)]
    full = max(len(bench.dataset[0]["attention_mask"]), 1)
    padding = 1 - sum(int(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks)
    untreated = 1 - sum(int(mask.sum()) for mask in masks) / sum(full * len(mask) for mask in masks)
    if padding > untreated / 2:
        raise NoEffect(f"{padding:.0%} of the tokens are padding, {untreated:.0%} without the treatment")
    return {"padding_share": padding, "padding_share_untreated": untreated, "batches_seen": len(masks)}


TREATMENT = Treatment(
    name="length_bucketing",
    summary="documents of similar length in a batch, cut to the longest",
    sources=("https://huggingface.co/docs/transformers/main_classes/trainer", "https://arxiv.org/abs/1706.05765"),
    params={"batches_sorted": Param(16, "batches' worth of documents sorted together", kind="int", minimum=2)},
    requires=Requires(inputs=("loader",), traits=("text", "padding")),
    hooks={"loader": loader},
    proof=Proof(after=proof),
    occupies=("sampler",),
    changes=("items_per_step", "batch shape", "data order"),
    addresses=("compute", "memory"),
    numerics=lambda traits: "changes",
)
