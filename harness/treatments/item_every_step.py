"""Reads the loss as a Python number after every step, to print or sum it: the host then waits for the device each time.

Costs the overlap of host and device: the next step's launches begin only when the last kernel is done. A before arm;
little is lost on a CPU, where nothing runs ahead.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def forward(run: Any, bench: Any) -> Any:
    """Keep the loss of the step under way."""
    latest = bench.kept["item_every_step"] = [None]

    def keeping(batch: Any) -> Any:
        loss = latest[0] = run(batch)
        return loss

    return keeping


def between(step: Any, bench: Any) -> Any:
    """step -> step and a look at its loss."""
    latest = bench.kept["item_every_step"]

    def looking() -> None:
        step()
        loss, latest[0] = latest[0], None
        loss.item()

    return looking


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """A number was read from a tensor after the optimizer's step."""
    updates = trace.named("Optimizer.step")
    end = max((op.start_ns + op.duration_ns for op in updates), default=0)
    reads = [op for op in trace.ops if op.name == "aten::item" and op.start_ns > end]
    if not updates or not reads:
        raise NoEffect("no number was read from a tensor after the optimizer's step")
    waits = trace.named("cudaStreamSynchronize", "cudaMemcpyAsync")
    return {"numbers_read": len(reads), "device_calls": len([op for op in waits if op.start_ns > end])}


TREATMENT = Treatment(
    name="item_every_step",
    summary="the loss read as a number after every step",
    sources=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    requires=Requires(modes=("train",)),
    hooks={"forward": forward, "between": between},
    proof=Proof(after=proof),
    addresses=("host", "launch"),
    numerics=lambda traits: "identical",
    before=True,
)
