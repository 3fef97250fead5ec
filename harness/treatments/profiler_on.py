"""Leaves torch's profiler on during training, with shapes recorded, as is done to have a trace at hand.

Costs a record for every operator and kernel, and reading them at the end of each step. A before arm.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Treatment


def between(step: Any, bench: Any) -> Any:
    """step -> step under a profiler, unless one is watching already."""
    from torch._C._autograd import _profiler_enabled
    from torch.profiler import profile

    latest = bench.kept["profiler_on"] = [None]

    def profiled() -> None:
        if _profiler_enabled():
            step()
            return
        with profile(record_shapes=True) as profiler:
            step()
        latest[0] = profiler

    return profiled


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """The last timed step left a record of its operators."""
    (profiler,) = bench.kept.get("profiler_on", [None])
    events = len(profiler.profiler.kineto_results.events()) if profiler else 0
    if not events:
        raise NoEffect("the last timed step left no record in a profiler")
    return {"events_in_last_step": events}


TREATMENT = Treatment(
    name="profiler_on",
    summary="torch's profiler left on",
    sources=("https://docs.pytorch.org/docs/stable/profiler.html",),
    hooks={"between": between},
    proof=Proof(after=proof),
    addresses=("host",),
    numerics=lambda traits: "identical",
    before=True,
)
