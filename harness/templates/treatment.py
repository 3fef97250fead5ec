"""What NAME does, when it helps and when it hurts: say it here.

As it stands, the norm of all gradients is limited before each update. That keeps a training stable whose gradients
explode now and then; it costs a pass over the gradients in every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.spec import Bench, NoEffect, Param, Proof, Requires, Trace, Treatment


def clip(before: Callable[[], None], bench: Bench, max_norm: float) -> Callable[[], None]:
    """Turn what a stage holds into what it should hold; `harness.spec.STAGES` says what that is, stage by stage."""
    import torch

    def clip_norm() -> None:
        before()
        torch.nn.utils.clip_grad_norm_(bench.model.parameters(), max_norm)

    return clip_norm


def proof(bench: Bench, snapshot: Any, trace: Trace, max_norm: float) -> dict[str, Any]:
    """Show from the running process that it took effect, or refuse: without a proof there is no number.

    It must refuse a run without the treatment, so it reads what happened (here the operators of a profiled step, which
    a plain one does not have) and never what was asked for.
    """
    norms = trace.named("linalg_vector_norm", "_foreach_norm")
    if not norms:
        raise NoEffect("no norm is computed in a step")
    return {"norms_in_a_step": len(norms)}


TREATMENT = Treatment(
    name="NAME",
    summary="the norm of the gradients limited before each update",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",),
    params={"max_norm": Param(1.0, "the norm that all gradients together may have", kind="float", minimum=0.0)},
    requires=Requires(modes=("train",)),  # also devices, packages, traits of the workload, ...
    hooks={"update.clip": clip},
    proof=Proof(after=proof),
    numerics=lambda traits: "changes",  # or "identical", or "close" where only rounding differs: then it is checked
)
