"""GPT-2 as transformers builds it: one workload trains it, another generates text with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

TINY = {"layers": 2, "width": 64, "heads": 2, "vocabulary": 1000, "dropout": 0.1}
SMALL = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 50257, "dropout": 0.1}
"""The published sizes of GPT-2 small."""
SOURCES = (
    "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
    "https://huggingface.co/docs/transformers/model_doc/gpt2",
)


def build(
    *,
    positions: int,
    layers: int,
    width: int,
    heads: int,
    vocabulary: int,
    dropout: float,
    use_cache: bool = False,
) -> torch.nn.Module:
    """Build the language model in the library's default configuration, but for the sizes and dropout given."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=max(1024, positions),
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=vocabulary - 1,
        eos_token_id=vocabulary - 1,
        use_cache=use_cache,
        attn_implementation="sdpa",
    )
    return GPT2LMHeadModel(config)


def blocks(model: Any) -> list[Any]:
    """The transformer blocks."""
    return list(model.transformer.h)
