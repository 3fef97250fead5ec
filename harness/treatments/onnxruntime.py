"""Exports the model to ONNX and predicts with ONNX Runtime on the CPU, with as many threads as torch has.

Helps small models and small batches, where torch's calls are a good part of the time, and where torch need not be
installed to serve. What cannot be exported does not run; large products are about as fast in both.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment
from harness.treatments._exporting import Exported, calls_so_far, ran_elsewhere

LIBRARY = "onnxruntime"
PROVIDER = "CPUExecutionProvider"


def compile_model(model: Any, bench: Any) -> Any:
    """model -> the same in a session of ONNX Runtime."""
    return Exported(model, _session)


def _session(model: Any, images: Any) -> Any:
    import onnxruntime
    import torch

    program = torch.onnx.export(model, (images,), dynamo=True, verbose=False)
    assert program is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options, providers=[PROVIDER])
    (name,) = [given.name for given in session.get_inputs()]

    def run(batch: Any) -> Any:
        return torch.from_numpy(session.run(None, {name: batch.contiguous().numpy()})[0])

    return run


def proof(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
    """The model ran outside torch, in a process that has ONNX Runtime's library mapped."""
    evidence = ran_elsewhere(bench, snapshot, trace)
    mapped = [path for path in bench.mapped_libraries() if LIBRARY in path]
    if not mapped:
        raise NoEffect("no library of ONNX Runtime is mapped into the process")
    return {**evidence, "provider": PROVIDER, "library": mapped[0].rpartition("/")[2]}


TREATMENT = Treatment(
    name="onnxruntime",
    summary="inference by ONNX Runtime",
    sources=(
        "https://onnxruntime.ai/docs/performance/tune-performance/threading.html",
        "https://docs.pytorch.org/docs/stable/onnx_export.html",
    ),
    requires=Requires(
        modes=("infer",), devices=("cpu",), packages=("onnxruntime", "onnx", "onnxscript"), traits=("image",)
    ),
    hooks={"compile": compile_model},
    proof=Proof(after=proof, before=calls_so_far),
    addresses=("host", "compute"),
)
