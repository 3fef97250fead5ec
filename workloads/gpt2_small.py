"""GPT-2 small on text, as transformers builds it: causal attention, a wide vocabulary, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.spec import Workload
from harness.workloads.data import text
from harness.workloads.nets import gpt2

if TYPE_CHECKING:
    import torch


def model(mode: str, *, sequence_length: int, batch: int, items: int, **sizes: Any) -> torch.nn.Module:
    """Build the language model; the sizes are those of `gpt2.build`."""
    return gpt2.build(positions=sequence_length, **sizes)


def loss(model: Any, batch: Any) -> torch.Tensor:
    """Cross entropy of the next token, at every position."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(predict(model, batch).flatten(0, 1), batch["labels"].flatten())


def predict(model: Any, batch: Any) -> torch.Tensor:
    """Logits [batch, sequence_length, vocabulary]."""
    logits: torch.Tensor = model(input_ids=batch["input_ids"]).logits
    return logits


def optimizer() -> tuple[Any, dict[str, Any]]:
    """AdamW, at GPT-2's rate."""
    import torch

    return torch.optim.AdamW, {"lr": 6e-4, "weight_decay": 0.1}


WORKLOAD = Workload(
    name="gpt2_small",
    summary="transformers' GPT-2 small, next-token training on text",
    sources=gpt2.SOURCES,
    unit="tokens",
    traits=frozenset({"attention", "gelu", "dropout", "text", "repeated_blocks"}),
    presets={
        "tiny": {"batch": 8, "sequence_length": 32, **gpt2.TINY, "items": 512},
        "small": {"batch": 2, "sequence_length": 32, **gpt2.SMALL, "items": 512},
        "full": {"batch": 16, "sequence_length": 1024, **gpt2.SMALL, "items": 2048},
    },
    standard=True,
    packages=("torch", "transformers", "numpy"),
    prepare=text.prepare_blocks,
    dataset=text.blocks_dataset,
    model=model,
    loss=loss,
    predict=predict,
    optimizer=optimizer,
    items=text.count_tokens,
    blocks=gpt2.blocks,
)
