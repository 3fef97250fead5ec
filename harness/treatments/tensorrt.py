"""Compiles the model with Torch-TensorRT into engines for exactly this GPU, and predicts with those.

Helps inference on NVIDIA GPUs with fixed shapes: kernels are chosen by trying them. Building takes minutes, engines
fit one GPU model and one version of TensorRT, and what it lacks runs in torch, with a border crossed each time.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment
from harness.treatments._exporting import Exported, close_outputs

ENGINE = "tensorrt::execute_engine"


def compile_model(model: Any, bench: Any) -> Any:
    """model -> the same, as engines."""

    def engines(model: Any, images: Any) -> Any:
        import torch_tensorrt

        return torch_tensorrt.compile(model, ir="dynamo", inputs=[images])

    return Exported(model, engines)


def proof(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
    """An engine was executed in the profiled step, and the first outputs were close to the model's."""
    difference, runs = close_outputs(bench), trace.named(ENGINE)
    if not runs:
        raise NoEffect(f"{len(runs)} engines of TensorRT were executed in the profiled step")
    left = len(trace.matmuls()) + len(trace.convolutions())
    return {
        "engines_executed": len(runs),
        "products_left_to_torch": left,
        "largest_relative_difference": difference,
    }


TREATMENT = Treatment(
    name="tensorrt",
    summary="inference by TensorRT engines",
    sources=("https://docs.pytorch.org/TensorRT/",),
    requires=Requires(modes=("infer",), devices=("cuda",), packages=("torch-tensorrt",), traits=("image",)),
    hooks={"compile": compile_model},
    proof=Proof(after=proof),
    addresses=("compute", "launch"),
)
