"""GPT-2 small on text, as transformers builds it: causal attention, a wide vocabulary, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.spec import Workload
from harness.workloads.data import text

if TYPE_CHECKING:
    import torch


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
    """Build the language model in the library's default configuration, but for the sizes and dropout given."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=max(1024, sequence_length),
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=vocabulary - 1,
        eos_token_id=vocabulary - 1,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return GPT2LMHeadModel(config)


def loss(model: Any, batch: Any) -> torch.Tensor:
    """Cross entropy of the next token, at every position."""
    from torch.nn.functional import cross_entropy

    logits = model(input_ids=batch["input_ids"]).logits
    return cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())


def predict(model: Any, batch: Any) -> torch.Tensor:
    """Logits [batch, sequence_length, vocabulary]."""
    logits: torch.Tensor = model(input_ids=batch["input_ids"]).logits
    return logits


def optimizer() -> tuple[Any, dict[str, Any]]:
    """AdamW, at GPT-2's rate."""
    import torch

    return torch.optim.AdamW, {"lr": 6e-4, "weight_decay": 0.1}


def blocks(model: Any) -> list[Any]:
    """The transformer blocks."""
    return list(model.transformer.h)


_REAL = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 50257, "dropout": 0.1}

WORKLOAD = Workload(
    name="gpt2_small",
    summary="transformers' GPT-2 small, next-token training on text",
    sources=(
        "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
        "https://huggingface.co/docs/transformers/model_doc/gpt2",
    ),
    unit="tokens",
    traits=frozenset({"attention", "gelu", "dropout", "text", "repeated_blocks"}),
    presets={
        "tiny": {
            "batch": 8,
            "sequence_length": 32,
            "layers": 2,
            "width": 64,
            "heads": 2,
            "vocabulary": 1000,
            "dropout": 0.1,
            "items": 512,
        },
        "small": {"batch": 2, "sequence_length": 32, **_REAL, "items": 512},
        "full": {"batch": 16, "sequence_length": 1024, **_REAL, "items": 2048},
    },
    packages=("torch", "transformers", "numpy"),
    prepare=text.prepare_blocks,
    dataset=text.blocks_dataset,
    model=model,
    loss=loss,
    predict=predict,
    optimizer=optimizer,
    items=text.count_tokens,
    blocks=blocks,
)
