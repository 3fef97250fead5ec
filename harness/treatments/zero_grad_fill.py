"""Fills the gradients with zeros after each step rather than dropping them: torch's default until 2.0, still a habit.

Costs a pass over all gradients, and a read more in the next backward pass, which must add instead of write. Saves
nothing but the allocation of the gradients.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def zero(default: Any, bench: Any) -> Any:
    """Zero the gradients where they lie."""
    optimizer = bench.optimizer
    return lambda: optimizer.zero_grad(set_to_none=False)


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """Zero fills ran inside the optimizer's zero_grad, and gradients are still there after the step."""
    calls = trace.named("Optimizer.zero_grad")
    fills = [
        op for op in trace.named("aten::zero_", "aten::_foreach_zero_") if any(_inside(op, call) for call in calls)
    ]
    kept = sum(weight.grad is not None for weight in bench.model.parameters())
    if not fills or not kept:
        raise NoEffect(f"{len(fills)} zero fills in zero_grad of the profiled step, {kept} gradients kept after it")
    return {"zero_fills": len(fills), "gradients_kept": kept}


def _inside(op: Any, call: Any) -> bool:
    return call.start_ns <= op.start_ns < call.start_ns + call.duration_ns


TREATMENT = Treatment(
    name="zero_grad_fill",
    summary="gradients filled with zeros rather than dropped",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    requires=Requires(modes=("train",)),
    hooks={"update.zero": zero},
    proof=Proof(after=proof),
    addresses=("memory",),
    before=True,
)
