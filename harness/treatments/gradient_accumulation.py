"""Runs a batch through the model in equal parts, adding up their gradients, with one optimizer step for all.

Helps where the batch does not fit in memory: activations of one part are held at a time. Costs time otherwise, since
smaller parts use the device less well. Results move where the model looks across the batch (BatchNorm) or the parts
hold different numbers of tokens (padding).
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Numerics, Param, Proof, Requires, Treatment
from harness.treatments._splitting import pieces


def split(whole: Any, bench: Any, parts: int) -> Any:
    """batch -> its parts along the first dimension of every tensor."""
    return lambda batch: pieces(batch, parts)


def proof(bench: Any, snapshot: Any, trace: Any, parts: int) -> dict[str, Any]:
    """The trained parameters received gradients `parts` times in the one step that was profiled."""
    received = [op for op in trace.ops if op.name == "torch::autograd::AccumulateGrad"]
    trained = len(bench.optimizer.state) or sum(weight.requires_grad for weight in bench.model.parameters())
    passes = round(len(received) / max(1, trained))
    if passes != parts:
        gradients = f"{len(received)} gradients for {trained} parameters"
        raise NoEffect(f"{passes} backward passes in a step ({gradients}), not {parts}")
    return {"backward_passes_per_step": passes, "parameters": trained}


def numerics(traits: frozenset[str]) -> Numerics:
    """BatchNorm sees smaller batches; a mean over unequal numbers of tokens is weighted differently."""
    return "changes" if traits & {"batchnorm", "padding"} else "close"


TREATMENT = Treatment(
    name="gradient_accumulation",
    summary="the batch in several smaller passes, one optimizer step for all",
    sources=(
        "https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    params={"parts": Param(2, "passes per optimizer step", kind="int", minimum=2)},
    requires=Requires(modes=("train",)),
    hooks={"update.split": split},
    proof=Proof(after=proof),
    changes=("micro_batches",),
    addresses=("memory",),
    numerics=numerics,
)
