"""Compiles the whole model with TorchDynamo and Inductor: operators fused into generated code, Python left out.

Helps models with much element-wise work between the products, and steps bound by launch and Python overhead. Hurts
start-up (seconds to minutes), inputs of ever new shapes (each may compile again) and code with many graph breaks.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment

REGION = "Torch-Compiled Region"
GENERATED = "CompiledFxGraph"
WITH_GRAPHS = ("reduce-overhead", "max-autotune")
"""Modes that capture CUDA graphs; on a CPU they would silently do without."""


def compile_model(model: Any, bench: Any, mode: str, fullgraph: bool) -> Any:
    """Wrap the model; compilation itself happens in the first steps."""
    import torch

    return torch.compile(model, mode=mode, fullgraph=fullgraph)


def before(bench: Any, mode: str, fullgraph: bool) -> dict[str, int]:
    """What had been compiled when the warm-up ended."""
    return dict(bench.compile_counters())


def after(bench: Any, snapshot: dict[str, int], trace: Any, mode: str, fullgraph: bool) -> dict[str, Any]:
    """Frames compiled in the warm-up and none since, generated code in the profiled step, no CUDA graph skipped."""
    now = bench.compile_counters()
    if not snapshot["frames"]:
        raise NoEffect("no frame was compiled during the warm-up")
    if now["frames"] != snapshot["frames"]:
        raise NoEffect(f"{now['frames'] - snapshot['frames']} frames were compiled inside the timed windows")
    regions, graphs = len(trace.named(REGION)), len(trace.named(GENERATED))
    launches = len(trace.named("cudaGraphLaunch"))
    if not regions or not graphs + launches:
        raise NoEffect(f"{snapshot['frames']} frames were compiled, but the profiled step entered no compiled code")
    if mode in WITH_GRAPHS and (now["cudagraph_skips"] or not launches):
        raise NoEffect(f"mode {mode} skipped CUDA graphs {now['cudagraph_skips']} times, {launches} launches in a step")
    return {
        **now,
        "regions_per_step": regions,
        "generated_graphs_per_step": graphs,
        "graph_launches_per_step": launches,
    }


def needs(mode: str, fullgraph: bool) -> Requires:
    """CUDA graphs exist on CUDA only."""
    return Requires(devices=("cuda",)) if mode in WITH_GRAPHS else Requires()


def conflicts(own: Any, others: Any) -> str | None:
    """The asynchronous allocator has no graph pools; an accelerator graph inside another cannot be captured."""
    if own["mode"] in WITH_GRAPHS and "alloc_async" in others:
        return f"mode {own['mode']} captures CUDA graphs, and the cudaMallocAsync allocator has no graph pools"
    if own["mode"] in WITH_GRAPHS and "cuda_graph" in others:
        return f"mode {own['mode']} captures CUDA graphs itself, so the whole step cannot be captured as another"
    return None


TREATMENT = Treatment(
    name="torch_compile",
    summary="the whole model compiled by TorchDynamo and Inductor",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
        "https://dl.acm.org/doi/10.1145/3620665.3640366",
    ),
    params={
        "mode": Param(
            "default",
            "what Inductor optimises for",
            choices=("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"),
        ),
        "fullgraph": Param(False, "whether a graph break is an error", kind="bool"),
    },
    requires_for=needs,
    hooks={"compile": compile_model},
    proof=Proof(after=after, before=before),
    conflicts=conflicts,
    addresses=("launch", "compute", "memory", "host"),
)
