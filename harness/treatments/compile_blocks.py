"""Compiles each repeated block of the model by itself: the same code serves all, so that compiling takes far less.

Helps deep models of equal blocks, with start-up above all. Fuses nothing across block borders, and returns to Python
between blocks.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, NotApplicable, Param, Proof, Requires, Treatment

REGION = "Torch-Compiled Region"


def compile_model(model: Any, bench: Any, mode: str) -> Any:
    """Compile the blocks where they stand."""
    blocks = bench.workload.blocks(model) if bench.workload.blocks else []
    if not blocks:
        raise NotApplicable(f"the workload {bench.workload.name} names no repeated blocks")
    for block in blocks:
        block.compile(mode=mode)
    return model


def before(bench: Any, mode: str) -> dict[str, int]:
    """What had been compiled when the warm-up ended."""
    return dict(bench.compile_counters())


def after(bench: Any, snapshot: dict[str, int], trace: Any, mode: str) -> dict[str, Any]:
    """Frames compiled in the warm-up and none since, and one compiled region entered for each block."""
    now = bench.compile_counters()
    if not snapshot["frames"] or now["frames"] != snapshot["frames"]:
        raise NoEffect(f"{snapshot['frames']} frames were compiled in the warm-up, {now['frames']} by the end")
    regions, blocks = len(trace.named(REGION)), len(bench.workload.blocks(bench.model))
    if regions < blocks:
        raise NoEffect(f"the profiled step entered compiled code {regions} times for {blocks} blocks")
    return {**now, "regions_per_step": regions, "blocks": blocks}


TREATMENT = Treatment(
    name="compile_blocks",
    summary="each repeated block compiled by itself",
    sources=("https://docs.pytorch.org/tutorials/recipes/regional_compilation.html",),
    params={"mode": Param("default", "what Inductor optimises for", choices=("default", "max-autotune-no-cudagraphs"))},
    requires=Requires(traits=("repeated_blocks",)),
    hooks={"compile": compile_model},
    proof=Proof(after=after, before=before),
    addresses=("launch", "compute", "memory", "host"),
)
