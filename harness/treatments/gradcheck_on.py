"""Compares the gradients of a small function with finite differences in every step: gradcheck left on in training.

Tells of wrong gradients while an operator of one's own is written. Afterwards it costs some dozens of extra passes in
every step, in double precision. A before arm.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment

SIZE = 4
EVALUATIONS = 2 * SIZE * SIZE
"""Forward passes that central differences of a square weight take."""


def between(step: Any, bench: Any) -> Any:
    """step -> step and a check of a softmax of scaled inputs."""
    import torch

    generator = torch.Generator().manual_seed(bench.seed)
    inputs, weight = (torch.rand(SIZE, SIZE, dtype=torch.float64, generator=generator) for _ in range(2))
    inputs, weight = inputs.to(bench.device), weight.to(bench.device).requires_grad_()

    def scaled(weight: Any) -> Any:
        return torch.log_softmax(inputs * weight, dim=1)

    def checking() -> None:
        step()
        torch.autograd.gradcheck(scaled, (weight,))

    return checking


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """As many calls of the small function, in double precision, as central differences take."""
    calls = [
        op
        for op in trace.named("aten::_log_softmax")
        if op.inputs and (op.inputs[0].dtype, op.inputs[0].shape) == ("float64", (SIZE, SIZE))
    ]
    if len(calls) < EVALUATIONS:
        raise NoEffect(f"the small function ran {len(calls)} times in the profiled step, a check takes {EVALUATIONS}")
    return {"calls_of_the_function": len(calls)}


TREATMENT = Treatment(
    name="gradcheck_on",
    summary="gradients checked by finite differences in every step",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html",),
    requires=Requires(modes=("train",)),
    hooks={"between": between},
    proof=Proof(after=proof),
    addresses=("host",),
    numerics=lambda traits: "identical",
    before=True,
)
