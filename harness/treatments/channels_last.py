"""Keeps images and convolution weights in memory with the channels innermost (NHWC), as the fast kernels want them.

Helps convolutions on tensor cores and in oneDNN, which otherwise reorder at every layer; more so in half precision.
Hurts where a reshape or a permute in the model breaks the format, so that every layer after it converts again, and
does nothing for a transformer.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, TensorInfo, Treatment


def layout(model: Any, bench: Any) -> Any:
    """Convert the weights; the format then travels through the convolutions by itself."""
    import torch

    return model.to(memory_format=torch.channels_last)


def feed(move: Any, bench: Any) -> Any:
    """Convert the images too: the model alone is half of it."""
    import torch

    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(memory_format=torch.channels_last) if value.dim() == 4 else value
        if isinstance(value, dict):
            return {key: convert(item) for key, item in value.items()}
        return type(value)(convert(item) for item in value) if isinstance(value, tuple | list) else value

    return lambda batch: convert(move(batch))


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Every convolution ran on channels-last images, and the weights are held so (compiled code would convert both)."""
    images = [op.inputs[0] for op in trace.convolutions() if op.inputs and "backward" not in op.name]
    telling = [image for image in images if _tells(image.shape)]
    if not telling:
        raise NoEffect("no convolution of the profiled step shows its memory format")
    wrong = [image for image in telling if not _is_channels_last(image)]
    if wrong:
        raise NoEffect(f"{len(wrong)} of {len(telling)} convolutions ran on other strides, such as {wrong[0].strides}")
    held = [_info(weight) for weight in bench.model.parameters() if weight.dim() == 4]
    kept = [weight for weight in held if _tells(weight.shape)]
    if not all(map(_is_channels_last, kept)):
        raise NoEffect("the weights are not held channels-last: compiled code converts them at every step")
    return {"convolutions": len(telling), "weights": len(kept), "strides": list(telling[0].strides)}


def _tells(shape: tuple[int, ...]) -> bool:
    """Whether the two formats differ for this shape."""
    return len(shape) == 4 and shape[1] > 1 and shape[2] * shape[3] > 1


def _is_channels_last(tensor: TensorInfo) -> bool:
    return tensor.strides[1] == 1


def _info(tensor: Any) -> TensorInfo:
    return TensorInfo(str(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()))


TREATMENT = Treatment(
    name="channels_last",
    summary="images and convolution weights with the channels innermost in memory",
    sources=(
        "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",
        "https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.memory_format",
    ),
    requires=Requires(traits=("conv",)),
    hooks={"layout": layout, "feed": feed},
    proof=Proof(after=proof),
    occupies=("memory format",),
    changes=("memory_format",),
    addresses=("compute", "memory"),
)
