"""Compares the gradients of a small layer with finite differences in every step, as gradcheck left on in training does.

Tells of wrong gradients while an operator of one's own is written. Afterwards it costs some dozens of extra passes in
every step, in double precision. A before arm.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment

SIZE = 4
EVALUATIONS = 2 * SIZE * SIZE
"""Forward passes that finite differences of a square weight take at least."""


def between(step: Any, bench: Any) -> Any:
    """step -> step and a check of a linear layer with a softmax."""
    import torch

    generator = torch.Generator().manual_seed(bench.seed)
    inputs, weight = (torch.rand(SIZE, SIZE, dtype=torch.float64, generator=generator) for _ in range(2))
    inputs, weight = inputs.to(bench.device), weight.to(bench.device).requires_grad_()

    def layer(weight: Any) -> Any:
        return torch.log_softmax(inputs @ weight, dim=1)

    def checking() -> None:
        step()
        torch.autograd.gradcheck(layer, (weight,))

    return checking


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """As many products of the layer's size, in double precision, as finite differences take."""
    checks = [
        op
        for op in trace.matmuls()
        if op.inputs and all(x.dtype == "float64" and x.shape == (SIZE, SIZE) for x in op.inputs)
    ]
    if len(checks) < EVALUATIONS:
        raise NoEffect(
            f"{len(checks)} small products in double precision in the profiled step, a check takes {EVALUATIONS}"
        )
    return {"products_of_the_check": len(checks)}


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
