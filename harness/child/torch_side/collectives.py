"""What the ranks exchanged in a profiled step: operations, bytes and time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from harness.spec import Collective, Kernel, Op, TensorInfo

GLOO = "gloo:"
"""How gloo marks an exchange on its own threads; NCCL's are kernels."""


def collectives(ops: Iterable[Op]) -> list[Collective]:
    """The exchanges issued, in order, from torch's own dispatcher events."""
    found = []
    for op in ops:
        namespace, _, name = op.name.partition("::")
        if namespace == "c10d" and op.inputs:
            found.append(Collective(name.strip("_"), op.inputs[0].dtype, _whole(name, op.inputs)))
    return found


def _whole(name: str, inputs: Sequence[TensorInfo]) -> int:
    """Bytes of what is exchanged. With a base tensor the event lists the whole and one rank's share of it."""
    sizes = [_bytes(tensor) for tensor in inputs]
    return max(sizes) if name.endswith("_base_") else sum(sizes)


def _bytes(tensor: TensorInfo) -> int:
    count: int = torch.Size(tensor.shape).numel()
    dtype: torch.dtype = getattr(torch, tensor.dtype)
    return count * dtype.itemsize


def communication_ns(ops: Iterable[Op], kernels: Iterable[Kernel]) -> int:
    """Time during which at least one exchange was under way, whatever else ran beside it."""
    spans = [(op.start_ns, op.start_ns + op.duration_ns) for op in ops if op.name.startswith(GLOO)]
    spans += [(k.start_ns, k.start_ns + k.duration_ns) for k in kernels if "nccl" in k.name.lower()]
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total
