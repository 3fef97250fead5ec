"""Converts the model to OpenVINO and predicts with its CPU plug-in, in single precision and with torch's threads.

Helps on CPUs of the x86 family, most for small batches: layouts are chosen and operators fused ahead of time. What
cannot be converted does not run, and conversion holds the weights twice.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment
from harness.treatments._exporting import Exported, calls_so_far, ran_elsewhere

PLUGIN = "libopenvino_intel_cpu_plugin"


def compile_model(model: Any, bench: Any) -> Any:
    """model -> the same, compiled by OpenVINO."""
    return Exported(model, _compiled)


def _compiled(model: Any, images: Any) -> Any:
    import openvino
    import torch

    converted = openvino.convert_model(torch.export.export(model, (images,)))
    settings = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.compile_model(converted, "CPU", settings)

    def run(batch: Any) -> Any:
        return torch.from_numpy(compiled(batch.contiguous().numpy())[0].copy())

    return run


def proof(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
    """The model ran outside torch, in a process that has OpenVINO's CPU plug-in mapped."""
    evidence = ran_elsewhere(bench, snapshot, trace)
    mapped = [path for path in bench.mapped_libraries() if PLUGIN in path]
    if not mapped:
        raise NoEffect("OpenVINO's CPU plug-in is not mapped into the process")
    return {**evidence, "library": mapped[0].rpartition("/")[2]}


TREATMENT = Treatment(
    name="openvino",
    summary="inference by OpenVINO's CPU plug-in",
    sources=("https://docs.openvino.ai/2025/openvino-workflow/model-preparation/convert-model-pytorch.html",),
    requires=Requires(modes=("infer",), devices=("cpu",), packages=("openvino",), traits=("image",)),
    hooks={"compile": compile_model},
    proof=Proof(after=proof, before=calls_so_far),
    addresses=("host", "compute"),
)
