"""Uses deterministic algorithms only, so that equal seeds give equal bits; an operator that has none raises.

Helps debugging and reproduction. Costs speed where the fast algorithm adds in no fixed order (scatter, some
convolutions), and fills new memory with a known value.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Treatment


def process(change: Any, machine: Any) -> Any:
    """Give cuBLAS a workspace per stream: without this setting its products raise in deterministic mode."""
    return change.with_env("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def runtime(value: None, bench: Any) -> None:
    """Switch it on for the whole process."""
    import torch

    torch.use_deterministic_algorithms(True)


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """New memory comes filled with NaN, as this mode alone has it; the step shows how often."""
    import torch

    fresh = torch.empty(8, device=bench.device)
    if not fresh.isnan().all():
        raise NoEffect("new memory comes unfilled: the deterministic mode is not in force")
    return {"memory_filled": True, "fills_in_step": sum(op.name == "aten::fill_" for op in trace.ops)}


TREATMENT = Treatment(
    name="deterministic",
    summary="deterministic algorithms only",
    sources=(
        "https://docs.pytorch.org/docs/stable/notes/randomness.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html",
    ),
    hooks={"process": process, "runtime": runtime},
    proof=Proof(after=proof),
    changes=("algorithms.deterministic", "cudnn.deterministic", "cudnn.benchmark"),
)
