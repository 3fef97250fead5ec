"""Has cuDNN try its convolution algorithms on the first batch of each shape, and keep the fastest.

Helps convolutions with fixed shapes. Costs start-up for every new shape, so it hurts where shapes vary, and the
choice may differ from run to run.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment


def runtime(value: None, bench: Any) -> None:
    """Switch it on for the whole process."""
    import torch

    torch.backends.cudnn.benchmark = True


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """A convolution of a new shape launches more kernels the first time than the second: algorithms were tried."""
    import torch
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    images = torch.randn(3, 7, 53, 59, device=bench.device)
    weights = torch.randn(11, 7, 3, 3, device=bench.device)
    launched = []
    for _ in range(2):
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            torch.nn.functional.conv2d(images, weights)
            torch.cuda.synchronize()
        launched.append(sum(event.device_type() != DeviceType.CPU for event in _events(profiler)))
    if launched[0] < launched[1] + 2:
        raise NoEffect(
            f"a new shape launched {launched[0]} kernels, and {launched[1]} the second time: nothing was tried"
        )
    names = sorted({kernel.name for kernel in trace.kernels if "conv" in kernel.name or "gemm" in kernel.name})
    return {"kernels_of_a_new_shape": launched, "kernels": names[:8]}


def _events(profiler: Any) -> Any:
    return profiler.profiler.kineto_results.events()


TREATMENT = Treatment(
    name="cudnn_benchmark",
    summary="cuDNN's algorithms tried out for every shape",
    sources=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    requires=Requires(devices=("cuda",), traits=("conv",)),
    hooks={"runtime": runtime},
    proof=Proof(after=proof),
    changes=("cudnn.benchmark",),
    addresses=("compute",),
)
