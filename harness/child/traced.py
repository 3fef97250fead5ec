"""Numbers that are read from the profiled step: how busy the device was, and in what type it multiplied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from harness.spec import Trace


def device_busy(trace: Trace | None) -> float | None:
    """Share of the profiled step in which a kernel or copy ran: the union of their times over the step's."""
    if trace is None or not trace.kernels:
        return None
    spans = [(op.start_ns, op.duration_ns) for op in trace.ops]
    spans += [(kernel.start_ns, kernel.duration_ns) for kernel in trace.kernels]
    start, end = min(first for first, _ in spans), max(first + length for first, length in spans)
    busy, until = 0, start
    for kernel in sorted(trace.kernels, key=lambda kernel: kernel.start_ns):
        kernel_end = kernel.start_ns + kernel.duration_ns
        busy += max(0, kernel_end - max(until, kernel.start_ns))
        until = max(until, kernel_end)
    return busy / (end - start) if end > start else None


def product_dtype(trace: Trace | None, facts: Mapping[str, Any]) -> str | None:
    """The type in which most matrix products and convolutions of the profiled step got their first operand.

    On a GPU single precision counts as TensorFloat-32 where the flags that were read back let the library round to it.
    """
    if trace is None:
        return None
    on_gpu = bool(trace.kernels)
    counts: Counter[str] = Counter()
    for ops, flag in ((trace.matmuls(), "precision.cuda.matmul"), (trace.convolutions(), "precision.cudnn.conv")):
        rounded = on_gpu and facts.get(flag) not in (None, "none", "ieee")
        dtypes = [op.inputs[0].dtype for op in ops if op.inputs]
        counts.update("tensorfloat32" if rounded and dtype == "float32" else dtype for dtype in dtypes)
    return counts.most_common(1)[0][0] if counts else None
