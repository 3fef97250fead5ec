"""A Longformer-like encoder on long blocks of text with masked tokens; as it stands every token looks at every other.

`window` and `global_tokens` say what a sparse attention keeps; the full one has no use for them. At preset small the
model has 2 of its 12 layers and half the length, so that two cores can train it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.spec import Workload
from harness.workloads.data import text

if TYPE_CHECKING:
    import torch


def model(
    mode: str, *, sequence_length: int, layers: int, width: int, heads: int, vocabulary: int, **_others: Any
) -> torch.nn.Module:
    """Build the encoder, randomly initialised."""
    from harness.workloads.nets.long_encoder import LongEncoder

    return LongEncoder(sequence_length, layers, width, heads, vocabulary)


def loss(model: Any, batch: Any) -> torch.Tensor:
    """Cross entropy of the masked tokens."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(predict(model, batch).flatten(0, 1), batch["labels"].flatten())


def predict(model: Any, batch: Any) -> torch.Tensor:
    """Logits [batch, sequence_length, vocabulary]."""
    logits: torch.Tensor = model(batch["input_ids"])
    return logits


def optimizer() -> tuple[Any, dict[str, Any]]:
    """AdamW, at RoBERTa's rate."""
    import torch

    return torch.optim.AdamW, {"lr": 1e-4, "weight_decay": 0.01}


def blocks(model: Any) -> list[Any]:
    """The encoder's layers."""
    return list(model.layers)


_REAL = {"width": 768, "heads": 12, "vocabulary": 30522, "window": 256, "global_tokens": 1}

WORKLOAD = Workload(
    name="longformer",
    summary="an encoder of long sequences, masked-token training on blocks of text",
    sources=("https://arxiv.org/abs/2004.05150",),
    unit="tokens",
    traits=frozenset({"attention", "attention_function", "gelu", "text", "repeated_blocks"}),
    presets={
        "tiny": {
            "batch": 2, "sequence_length": 512, "layers": 2, "width": 32, "heads": 2, "vocabulary": 500, "window": 64,
            "global_tokens": 1, "items": 64,
        },
        "small": {"batch": 1, "sequence_length": 2048, "layers": 2, **_REAL, "items": 128},
        "full": {"batch": 4, "sequence_length": 4096, "layers": 12, **_REAL, "items": 512},
    },
    packages=("torch", "numpy"),
    prepare=text.prepare_masked_blocks,
    dataset=text.masked_blocks_dataset,
    model=model,
    loss=loss,
    predict=predict,
    optimizer=optimizer,
    items=text.count_tokens,
    blocks=blocks,
)  # fmt: skip
