"""Chooses the implementation of scaled dot-product attention: the plain formula, or one of the fused kernels.

The fused kernels keep the attention matrix out of memory, which helps most with long sequences; torch picks one by
itself where dtype, mask and head size allow, so that naming it often changes nothing.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, NotApplicable, Param, Proof, Requires, Treatment

OPERATORS = {
    "flash": "_scaled_dot_product_flash_attention",
    "efficient": "_scaled_dot_product_efficient_attention",
    "cudnn": "_scaled_dot_product_cudnn_attention",
    "math": "_scaled_dot_product_attention_math",
}


def runtime(value: None, bench: Any, name: str) -> None:
    """Allow this implementation only."""
    import torch

    on_cpu = torch.device(bench.device).type == "cpu"
    if name == "flash" and on_cpu and bench.mode == "train" and bench.params.get("dropout"):
        raise NotApplicable("the flash kernel for CPUs has no dropout, and the workload trains with it")
    torch.backends.cuda.enable_flash_sdp(name == "flash")
    torch.backends.cuda.enable_mem_efficient_sdp(name == "efficient")
    torch.backends.cuda.enable_cudnn_sdp(name == "cudnn")
    torch.backends.cuda.enable_math_sdp(name == "math")


def proof(bench: Any, snapshot: Any, trace: Any, name: str) -> dict[str, Any]:
    """Every attention of the step ran in this implementation (compiled code shows the plain formula as products)."""
    calls = {key: len(trace.named(operator)) for key, operator in OPERATORS.items()}
    ran = {key for key, count in calls.items() if count}
    if not ran and name == "math" and trace.named("CompiledFxGraph") and trace.named("aten::bmm", "aten::baddbmm"):
        return {"batched_products": len(trace.named("aten::bmm", "aten::baddbmm"))}
    if ran != {name}:
        raise NoEffect(f"attention ran as {' and '.join(sorted(ran)) or 'no known operator'}, not as {name}")
    return {"calls": calls[name]}


def needs(name: str) -> Requires:
    """Two of the kernels exist on CUDA only."""
    devices = ("cpu", "cuda") if name in ("math", "flash") else ("cuda",)
    return Requires(traits=("attention",), devices=devices)


TREATMENT = Treatment(
    name="sdpa_backend",
    summary="one implementation of scaled dot-product attention",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        "https://arxiv.org/abs/2205.14135",
    ),
    params={"name": Param("math", "implementation", choices=tuple(OPERATORS))},
    requires=Requires(traits=("attention",)),
    requires_for=needs,
    hooks={"runtime": runtime},
    proof=Proof(after=proof),
    occupies=("attention",),
    changes=("sdpa.flash", "sdpa.efficient", "sdpa.math"),
    addresses=("memory", "compute"),
)
