"""Makes on the GPU what need not be copied there: padding masks from the tokens, random labels for pictures.

Helps where many small tensors are copied in a step, each with a call and a wait of its own. Little to gain where one
large tensor is most of what is copied. For pictures the labels are drawn at random, as in a speed test: their own are
then not learnt.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, NotApplicable, Numerics, Proof, Requires, Treatment

MASK, TOKENS = "attention_mask", "input_ids"


def feed(move: Any, bench: Any) -> Any:
    """Leave the tensor out of the batch before it is moved, and make it where the rest has arrived."""
    if "padding" in bench.workload.traits:
        return _with_mask(move)
    if "image" in bench.workload.traits:
        return _with_labels(move, bench)
    raise NotApplicable(f"nothing in a batch of {bench.workload.name} could be made on the device")


def _with_mask(move: Any) -> Any:
    """The mask of a padded batch is where its tokens are no padding; which token that is, the first batch says."""
    padding: list[int] = []

    def moved_with_mask(batch: Any) -> Any:
        if not padding:
            padding.append(_padding_token(batch[TOKENS], batch[MASK]))
        moved = move({key: value for key, value in batch.items() if key != MASK})
        return {**moved, MASK: moved[TOKENS].ne(padding[0]).to(batch[MASK].dtype)}

    return moved_with_mask


def _padding_token(tokens: Any, mask: Any) -> int:
    hidden = tokens[mask == 0]
    token = int(hidden[0]) if len(hidden) else -1
    if not bool(((tokens != token) == (mask != 0)).all()):
        raise NotApplicable("the padding's token also stands for something else, so that the mask cannot be made of it")
    return token


def _with_labels(move: Any, bench: Any) -> Any:
    import torch

    def moved_with_labels(batch: Any) -> Any:
        pictures, labels = batch
        (pictures,) = move((pictures,))
        drawn = torch.randint(bench.params["classes"], labels.shape, device=bench.device, dtype=labels.dtype)
        return type(batch)((pictures, drawn))

    return moved_with_labels


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Fewer copies to the device in the profiled step than the batch has tensors."""
    batch = bench.sample_batch()
    tensors = len(batch) if isinstance(batch, dict | tuple | list) else 1
    copies = [kernel for kernel in trace.kernels if "HtoD" in kernel.name]
    if not copies or len(copies) >= tensors:
        raise NoEffect(f"{len(copies)} copies to the device for a batch of {tensors} tensors")
    return {"copies_to_device": len(copies), "tensors_in_batch": tensors}


def numerics(traits: frozenset[str]) -> Numerics:
    """A mask is the same wherever it is made; labels drawn at random are not."""
    return "identical" if "padding" in traits else "changes"


def conflicts(own: Any, others: Any) -> str | None:
    """What copies the whole batch first leaves nothing to be made."""
    if "non_blocking_copy" in others:
        return "non_blocking_copy starts the copies of a whole batch first, also of what would be made on the device"
    return None


TREATMENT = Treatment(
    name="create_on_device",
    summary="masks and labels made on the GPU instead of copied to it",
    sources=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    requires=Requires(inputs=("loader",), devices=("cuda",)),
    hooks={"feed": feed},
    proof=Proof(after=proof),
    conflicts=conflicts,
    changes=("labels",),
    addresses=("loader", "host"),
    numerics=numerics,
)
