"""Copies batches to the GPU without the host waiting for it, so that it can go on to launch the step.

Helps where the host is the bottleneck. The batch must lie in pinned memory, or the copy waits all the same.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def feed(move: Any, bench: Any) -> Any:
    """Start the copies first; the moves after it then find everything on the device."""
    import torch

    device = torch.device(bench.device)

    def start(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(device, non_blocking=True)
        if isinstance(value, dict):
            return {key: start(item) for key, item in value.items()}
        return type(value)(start(item) for item in value) if isinstance(value, tuple | list) else value

    return lambda batch: move(start(batch))


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """The copies of the batch were issued in the profiled step, and the host waited in none of them."""
    calls = [op for op in trace.ops if op.name == "aten::copy_"]
    copies = [call for call in calls if _within(trace, call, "cudaMemcpyAsync")]
    waiting = [call for call in copies if _within(trace, call, "cudaStreamSynchronize")]
    to_device = [kernel for kernel in trace.kernels if "HtoD" in kernel.name]
    if not to_device or not copies or waiting:
        raise NoEffect(f"the host waited in {len(waiting)} of {len(copies)} copies")
    return {"copies": len(copies), "copies_to_device": len(to_device)}


def _within(trace: Any, call: Any, name: str) -> bool:
    end = call.start_ns + call.duration_ns
    return any(op.thread == call.thread and call.start_ns <= op.start_ns < end for op in trace.named(name))


TREATMENT = Treatment(
    name="non_blocking_copy",
    summary="batches copied to the GPU without waiting",
    sources=("https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",),
    requires=Requires(inputs=("loader",), devices=("cuda",), with_treatments=("pin_memory",)),
    hooks={"feed": feed},
    proof=Proof(after=proof),
    addresses=("host", "loader"),
    numerics=lambda traits: "identical",
)
