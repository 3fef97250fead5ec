"""Copies the next batch to the GPU on a second stream while the step before it is still computing.

Helps where copying takes a good part of a step. Needs batches in pinned memory that are copied without waiting, holds
one batch more on the device, and cannot help where the loader itself is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def ahead(batches: Iterator[Any], bench: Any) -> Iterator[Any]:
    """The same batches, each copied one step early."""
    import torch

    copying = torch.cuda.Stream(bench.device)

    def start() -> Any:
        with torch.cuda.stream(copying):
            return next(batches)

    waiting = start()
    while True:
        computing = torch.cuda.current_stream(bench.device)
        computing.wait_stream(copying)
        batch = waiting
        _keep_for(computing, batch)
        waiting = start()
        yield batch


def _keep_for(stream: Any, value: Any) -> None:
    """Tell the allocator that another stream than the one it was made on reads it."""
    if hasattr(value, "record_stream"):
        value.record_stream(stream)
    elif isinstance(value, dict):
        _keep_for(stream, list(value.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            _keep_for(stream, item)


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """The copies to the device ran on a stream where nothing is computed; how long beside kernels is told."""
    copies = [kernel for kernel in trace.kernels if "HtoD" in kernel.name]
    computed = [kernel for kernel in trace.kernels if not kernel.name.startswith(("Memcpy", "Memset"))]
    apart = [copy for copy in copies if copy.stream not in {kernel.stream for kernel in computed}]
    if not apart or not computed:
        raise NoEffect(f"{len(apart)} of {len(copies)} copies to the device ran on a stream of their own")
    return {
        "copies": len(copies),
        "on_a_second_stream": len(apart),
        "copying_ns": sum(copy.duration_ns for copy in apart),
        "beside_computing_ns": sum(_covered_ns(copy, computed) for copy in apart),
    }


def _covered_ns(copy: Any, kernels: list[Any]) -> int:
    """How much of a copy's time a kernel ran in; the kernels of a stream follow one another."""
    end = copy.start_ns + copy.duration_ns
    beside = sum(
        max(0, min(end, kernel.start_ns + kernel.duration_ns) - max(copy.start_ns, kernel.start_ns))
        for kernel in kernels
    )
    return min(beside, copy.duration_ns)


TREATMENT = Treatment(
    name="device_prefetch",
    summary="the next batch copied to the GPU during the step before",
    sources=(
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    ),
    requires=Requires(inputs=("loader",), devices=("cuda",), with_treatments=("non_blocking_copy", "pin_memory")),
    hooks={"feed.ahead": ahead},
    proof=Proof(after=proof),
    addresses=("loader",),
    numerics=lambda traits: "identical",
)
