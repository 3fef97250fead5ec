"""Profiled steps made up for proofs of what only a GPU can run."""

from __future__ import annotations

from collections.abc import Sequence

from harness.child.torch_side.trace import StepTrace
from harness.spec import Kernel, Op


def trace(ops: Sequence[str] = (), kernels: Sequence[tuple[str, int, int, int]] = ()) -> StepTrace:
    """Operators by name; kernels by (name, stream, start, duration)."""
    return StepTrace(
        [Op(name, (), start, 1, 1, False) for start, name in enumerate(ops)],
        [Kernel(name, start, duration, stream) for name, stream, start, duration in kernels],
    )


def gemms(count: int, stream: int = 7) -> list[tuple[str, int, int, int]]:
    return [("sm90_xmma_gemm", stream, 100 * index, 90) for index in range(count)]
