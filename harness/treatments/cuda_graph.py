"""Records a whole training step, forward, backward and update, as one CUDA graph, and replays that in every step.

Helps steps bound by launches: many small kernels, small batches. The batch is copied into the memory that the graph
reads, which costs a copy on the device. Shapes must not change, nothing in the step may wait for the host (a loss
scaler, anomaly checks), and the recorded step's memory is kept for itself.
"""

from __future__ import annotations

import inspect
from typing import Any

from harness.spec import NoEffect, NotApplicable, Proof, Requires, Step, Treatment

WARM_UP_STEPS = 3
"""On a side stream, before the recording: what libraries set up in their first calls cannot be captured."""
UNRECORDABLE = {
    "amp_fp16": "the loss scaler reads on the host, in every step, whether gradients overflowed",
    "anomaly_detection": "anomaly checks read every gradient on the host",
    "activation_offload": "activations are copied to host memory in the step",
    "length_bucketing": "its batches differ in shape",
    "multi_stream": "it runs on streams of its own",
}
SHARDED = frozenset({"data_parallel", "ddp", "fsdp", "zero1"})


def optimizer(value: Any, bench: Any) -> Any:
    """Have the optimizer keep its step count on the device, where its class knows how to."""
    import torch

    kind, arguments = value
    if "capturable" in inspect.signature(kind).parameters:
        return kind, {**arguments, "capturable": True}
    if issubclass(kind, torch.optim.SGD):
        return value  # it counts nothing
    raise NotApplicable(f"the optimizer {kind.__name__} of the workload {bench.workload.name} cannot be captured")


def capture(step: Step, bench: Any) -> Any:
    """step -> a step that records itself the first time, and copies its batch and replays from then on."""
    recorded = bench.kept["cuda_graph"] = {"replays": 0}
    state: dict[str, Any] = {}

    def run() -> bool:
        batch = step.fetch()
        if not state:
            state["batch"] = _cloned(batch)
            state["graph"] = _record(step, state["batch"], bench)
        copy_into(state["batch"], batch)
        state["graph"].replay()
        recorded["replays"] += 1
        return True

    return run


def _record(step: Step, batch: Any, bench: Any) -> Any:
    """Warm up on a side stream, put everything back in place, record one step."""
    import torch

    put_back = bench.saved_state()
    side = torch.cuda.Stream(bench.device)
    side.wait_stream(torch.cuda.current_stream(bench.device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_STEPS):
            step.compute(batch)
        put_back()
    torch.cuda.current_stream(bench.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # other threads, such as the loader's that pins memory, may call CUDA meanwhile
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        step.compute(batch)
    return graph


def _cloned(value: Any) -> Any:
    if hasattr(value, "clone"):
        return value.clone()
    if isinstance(value, dict):
        return {key: _cloned(item) for key, item in value.items()}
    return type(value)(map(_cloned, value)) if isinstance(value, tuple | list) else value


def copy_into(target: Any, value: Any) -> None:
    """Copy a batch into the tensors of another, in place; their shapes must agree."""
    if hasattr(target, "copy_"):
        if target.shape != value.shape:
            raise NotApplicable(f"a batch of shape {tuple(value.shape)} cannot be replayed as {tuple(target.shape)}")
        target.copy_(value)
    elif isinstance(target, dict):
        for key, item in target.items():
            copy_into(item, value[key])
    elif isinstance(target, tuple | list):
        for each, item in zip(target, value, strict=True):
            copy_into(each, item)


def before(bench: Any) -> int:
    """Replays by the end of the warm-up."""
    return int(bench.kept.get("cuda_graph", {}).get("replays", 0))


def after(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
    """Steps since the warm-up were replays, and the profiled one was: one graph launch, few kernels beside it."""
    replays = before(bench) - snapshot
    graphs, launches = len(trace.named("cudaGraphLaunch")), len(trace.named("LaunchKernel"))
    if not replays or graphs != 1:
        raise NoEffect(f"{replays} replays since the warm-up, {graphs} graph launches in the profiled step")
    if 2 * launches > len(trace.kernels):
        raise NoEffect(f"of {len(trace.kernels)} kernels {launches} were launched one by one")
    return {"replays": replays, "kernels_in_step": len(trace.kernels), "launched_one_by_one": launches}


def conflicts(own: Any, others: Any) -> str | None:
    """What waits for the host, changes shapes or sends to other ranks cannot be part of the recording."""
    for name in sorted(others):
        if name in UNRECORDABLE:
            return f"a step with {name} cannot be recorded: {UNRECORDABLE[name]}"
        if name in SHARDED:
            return f"{name} is not recorded here: its collectives would have to be captured on every rank at once"
    return None


TREATMENT = Treatment(
    name="cuda_graph",
    summary="the whole training step recorded once and replayed as a CUDA graph",
    sources=(
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.graph.html",
    ),
    requires=Requires(modes=("train",), devices=("cuda",)),
    hooks={"optimizer": optimizer, "capture": capture},
    proof=Proof(after=after, before=before),
    conflicts=conflicts,
    addresses=("launch", "host"),
)
