"""GPT-2 small writing text: the prompt in one pass (prefill), then token after token from the cache (decode).

The two halves load a device differently, the first its arithmetic and the second its memory; they are timed apart too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.spec import Part, Workload
from harness.workloads.data import text
from harness.workloads.nets import gpt2

if TYPE_CHECKING:
    import torch


def model(mode: str, *, prompt_length: int, new_tokens: int, batch: int, items: int, **sizes: Any) -> torch.nn.Module:
    """Build the language model; the sizes are those of `gpt2.build`."""
    return gpt2.build(positions=prompt_length + new_tokens, use_cache=True, **sizes)


def prefill(model: Any, batch: Any) -> Any:
    """Read the prompts: (the model's output with its cache, the batch)."""
    mask, length = batch["attention_mask"], batch["input_ids"].shape[1]
    output = model(
        input_ids=batch["input_ids"], attention_mask=mask[:, :length], position_ids=_positions(mask)[:, :length]
    )
    return output, batch


def decode(model: Any, read: Any) -> torch.Tensor:
    """Score the likeliest token after every one that is written: [batch, new tokens].

    What is written is the prompt over again, not the likeliest token: so every arm does the same work, and rounding
    cannot lead one of them to another text.
    """
    import torch

    output, batch = read
    mask, prompt = batch["attention_mask"], batch["input_ids"]
    positions = _positions(mask)
    scores = [output.logits[:, -1].max(-1).values]
    for written in range(mask.shape[1] - prompt.shape[1] - 1):
        length = prompt.shape[1] + written + 1
        output = model(
            input_ids=prompt[:, written % prompt.shape[1], None],
            attention_mask=mask[:, :length],
            position_ids=positions[:, length - 1 : length],
            past_key_values=output.past_key_values,
        )
        scores.append(output.logits[:, -1].max(-1).values)
    return torch.stack(scores, 1)


def predict(model: Any, batch: Any) -> torch.Tensor:
    """The scores of the tokens written: [batch, new tokens]."""
    return decode(model, prefill(model, batch))


def _positions(mask: Any) -> Any:
    """Positions that start at each prompt's first real token; padding stands on its left."""
    return (mask.cumsum(1) - 1).clamp(min=0)


def _written(batch: Any) -> int:
    return int(batch["attention_mask"].shape[0] * (batch["attention_mask"].shape[1] - batch["input_ids"].shape[1]))


WORKLOAD = Workload(
    name="gpt2_generate",
    summary="transformers' GPT-2 small generating text with a key-value cache, prompts of varying length",
    sources=(*gpt2.SOURCES, "https://huggingface.co/docs/transformers/llm_tutorial"),
    unit="tokens",
    # no "padding": it stands on the left here, where cutting a batch to its longest document would cut the text
    traits=frozenset({"attention", "gelu", "text", "repeated_blocks"}),
    presets={
        "tiny": {"batch": 4, "prompt_length": 16, "new_tokens": 8, **gpt2.TINY, "items": 256},
        "small": {"batch": 2, "prompt_length": 32, "new_tokens": 16, **gpt2.SMALL, "items": 256},
        "full": {"batch": 32, "prompt_length": 512, "new_tokens": 128, **gpt2.SMALL, "items": 1024},
    },
    modes=("infer",),
    packages=("torch", "transformers", "numpy"),
    prepare=text.prepare_prompts,
    dataset=text.prompts_dataset,
    model=model,
    predict=predict,
    items=text.count_tokens,
    blocks=gpt2.blocks,
    parts={
        "prefill": Part(prefill, lambda batch: text.count_tokens(batch) - _written(batch)),
        "decode": Part(decode, _written),
    },
)
