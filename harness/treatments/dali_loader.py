"""Reads, decodes and crops pictures with NVIDIA DALI in place of the DataLoader, on the CPU or partly on the GPU.

Helps where the loader cannot keep up: threads instead of processes, and with decoder=mixed the GPU's own decoder. The
GPU then has less time and memory for the model. Crops are DALI's own, drawn alike but not the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment

MEAN, STANDARD_DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
"""ImageNet's, by channel, of 255."""
RESIZE_SHARE = 256 / 224


class Batches:
    """An epoch after another of (pictures, labels), as the workload's own loader gives them."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self.pipeline.build()
        self.runs = 0

    def __iter__(self) -> Iterator[Any]:
        import torch

        while True:
            pictures, labels = self.pipeline.run()
            self.runs += 1
            yield _tensor(pictures), torch.from_numpy(_on_host(labels).as_array().copy()).flatten().long()


def _tensor(made: Any) -> Any:
    """A batch of DALI's as a tensor of torch, copied, since DALI writes the next one into the same memory."""
    import torch

    return torch.utils.dlpack.from_dlpack(made.as_tensor()).clone()


def _on_host(made: Any) -> Any:
    return made.as_cpu() if hasattr(made, "as_cpu") else made


def replacement(loader: None, bench: Any, threads: int, decoder: str) -> Any:
    """The pipeline over the files of the workload's data set."""
    from nvidia.dali import fn, pipeline_def, types

    dataset, size = bench.dataset, bench.params["image_size"]
    place = "gpu" if decoder == "mixed" else "cpu"

    @pipeline_def
    def pipeline() -> Any:
        files = [f"{dataset.folder}/{name}" for name, _ in dataset.samples]
        labels = [label for _, label in dataset.samples]
        encoded, label = fn.readers.file(files=files, labels=labels, random_shuffle=True, seed=bench.seed)
        picture = fn.decoders.image(encoded, device=decoder, output_type=types.RGB)
        if bench.mode == "train":
            picture = fn.random_resized_crop(picture, size=size, seed=bench.seed)
            mirror = fn.random.coin_flip(seed=bench.seed)
        else:
            picture = fn.resize(picture, resize_shorter=round(size * RESIZE_SHARE))
            mirror = 0
        return fn.crop_mirror_normalize(
            picture, device=place, crop=(size, size), mirror=mirror, dtype=types.FLOAT, output_layout="CHW",
            mean=list(MEAN), std=list(STANDARD_DEVIATION),
        ), label  # fmt: skip

    device_id = bench.device.index if decoder == "mixed" else None
    made = pipeline(batch_size=bench.params["batch"], num_threads=threads, device_id=device_id, seed=bench.seed)
    return Batches(made)


def before(bench: Any, threads: int, decoder: str) -> int:
    """Iterations of the pipeline by the end of the warm-up."""
    return int(getattr(bench.loader, "runs", 0))


def after(bench: Any, snapshot: int, trace: Any, threads: int, decoder: str) -> dict[str, Any]:
    """The pipeline iterated since the warm-up, and its library is mapped."""
    runs = before(bench, threads, decoder) - snapshot
    libraries = [path for path in bench.mapped_libraries() if "libdali" in path]
    if runs <= 0 or not libraries:
        raise NoEffect(f"a pipeline of DALI iterated {runs} times, {len(libraries)} of its libraries are mapped")
    return {"iterations": runs, "libraries": len(libraries)}


def needs(threads: int, decoder: str) -> Requires:
    """The GPU's decoder needs one."""
    packages = tuple(f"nvidia-dali-cuda{version}" for version in (130, 120, 110))
    devices = ("cuda",) if decoder == "mixed" else ("cpu", "cuda")
    return Requires(inputs=("loader",), devices=devices, packages=(packages,), traits=("image",))


TREATMENT = Treatment(
    name="dali_loader",
    summary="NVIDIA DALI in place of the DataLoader",
    sources=("https://docs.nvidia.com/deeplearning/dali/user-guide/docs/",),
    params={
        "threads": Param("max(1, min(cores - 1, 8))", "threads of the pipeline", kind="int", minimum=1),
        "decoder": Param("cpu", "where pictures are decoded", choices=("cpu", "mixed")),
    },
    requires_for=needs,
    hooks={"loader.replace": replacement},
    proof=Proof(after=after, before=before),
    occupies=("decoder", "sampler"),
    changes=("data order", "decoder", "loader"),
    addresses=("loader",),
    numerics=lambda traits: "changes",
)
