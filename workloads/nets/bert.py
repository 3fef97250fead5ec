"""BERT as transformers builds it, for masked tokens in documents of varying length: the workloads differ in size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.spec import Params, Workload
from harness.workloads.data import text

if TYPE_CHECKING:
    import torch

TINY: Params = {
    "batch": 8,
    "sequence_length": 32,
    "layers": 2,
    "width": 64,
    "heads": 2,
    "vocabulary": 1000,
    "dropout": 0.1,
    "items": 512,
}


def model(
    mode: str,
    *,
    sequence_length: int,
    layers: int,
    width: int,
    heads: int,
    vocabulary: int,
    dropout: float,
    **_others: Any,
) -> torch.nn.Module:
    """Build the masked language model in the library's default configuration, but for the sizes and dropout given."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=vocabulary,
        max_position_embeddings=max(512, sequence_length),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        attn_implementation="sdpa",
    )
    return BertForMaskedLM(config)


def loss(model: Any, batch: Any) -> torch.Tensor:
    """Cross entropy of the masked tokens."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(predict(model, batch).flatten(0, 1), batch["labels"].flatten())


def predict(model: Any, batch: Any) -> torch.Tensor:
    """Logits [batch, sequence_length, vocabulary]."""
    logits: torch.Tensor = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return logits


def optimizer() -> tuple[Any, dict[str, Any]]:
    """AdamW, at BERT's rate."""
    import torch

    return torch.optim.AdamW, {"lr": 1e-4, "weight_decay": 0.01}


def blocks(model: Any) -> list[Any]:
    """The encoder's layers."""
    return list(model.bert.encoder.layer)


def workload(name: str, summary: str, *, small: Params, full: Params, standard: bool = False) -> Workload:
    """A workload of this family: what its file adds are the sizes of the real model."""
    return Workload(
        name=name,
        summary=summary,
        sources=("https://arxiv.org/abs/1810.04805", "https://huggingface.co/docs/transformers/model_doc/bert"),
        unit="tokens",
        traits=frozenset({"attention", "gelu", "dropout", "text", "padding", "repeated_blocks"}),
        presets={"tiny": TINY, "small": small, "full": full},
        standard=standard,
        packages=("torch", "transformers", "numpy"),
        prepare=text.prepare_documents,
        dataset=text.documents_dataset,
        model=model,
        loss=loss,
        predict=predict,
        optimizer=optimizer,
        items=text.count_tokens,
        blocks=blocks,
    )
