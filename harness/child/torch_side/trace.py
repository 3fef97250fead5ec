"""What ran in one profiled step, as the proofs read it: operators with shapes, kernels, exchanges between ranks.

Nothing here touches the model: a profiler sees what really ran, in eager and in compiled code alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from harness.child.torch_side.collectives import collectives, communication_ns
from harness.spec import Collective, Kernel, Op, TensorInfo

MATMULS = frozenset(
    [
        "mm", "addmm", "addmm_", "bmm", "baddbmm", "mv", "addmv", "_int_mm", "_scaled_mm", "_addmm_activation",
        "mkldnn_linear", "_mkl_linear", "_linear_pointwise", "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward", "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_cudnn_attention_backward",
    ]
)  # fmt: skip
"""Operators that multiply matrices, by their names without the namespace."""

CONVOLUTIONS = frozenset(
    [
        "conv1d", "conv2d", "conv3d", "convolution", "_convolution", "convolution_backward",
        "mkldnn_convolution", "_convolution_pointwise", "_convolution_pointwise_", "cudnn_convolution",
        "cudnn_convolution_relu", "thnn_conv2d", "_slow_conv2d_forward", "_slow_conv2d_backward", "slow_conv3d",
        "slow_conv3d_forward", "slow_conv_dilated2d", "_nnpack_spatial_convolution", "_conv_depthwise2d",
        "conv_depthwise3d", "_mps_convolution", "miopen_convolution",
    ]
)  # fmt: skip
"""Operators that convolve; several of them nest in one call, and only the innermost is what ran."""

INDUCTOR_MATMUL = "triton_tem_fused"
"""How Inductor names the matrix products and convolutions that it generates from templates."""

BACKWARD_NODE = "autograd::engine::evaluate_function"


@dataclass(frozen=True)
class StepTrace:
    """One profiled step; see `spec.Trace`."""

    ops: Sequence[Op]
    kernels: Sequence[Kernel]
    innermost: Mapping[str, Sequence[Op]] = field(default_factory=dict)
    """The calls of MATMULS and of CONVOLUTIONS that hold no further one."""

    def named(self, *patterns: str) -> list[Op]:
        """The operators whose name contains one of the patterns."""
        return [op for op in self.ops if any(pattern in op.name for pattern in patterns)]

    def matmuls(self) -> list[Op]:
        """The matrix products that ran, forward and backward."""
        return list(self.innermost.get("matmul", ()))

    def convolutions(self) -> list[Op]:
        """The convolutions that ran, forward and backward."""
        return list(self.innermost.get("convolution", ()))

    def collectives(self) -> list[Collective]:
        """What this rank exchanged with the others, in order."""
        return collectives(self.ops)

    def communication_ns(self) -> int:
        """Time during which at least one exchange was under way."""
        return communication_ns(self.ops, self.kernels)


def profile_step(step: Callable[[], Any], device: torch.device) -> StepTrace:
    """Run one step under the profiler and say what ran."""
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
        torch.cuda.synchronize(device)
    with profile(activities=activities, record_shapes=True) as profiler:
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    results = profiler.profiler.kineto_results
    return read_trace(results.experimental_event_tree(), results.events())


def read_trace(roots: Iterable[Any], events: Iterable[Any]) -> StepTrace:
    """Turn the profiler's tree of operators and its flat list (runtime calls, kernels) into a trace."""
    ops: list[Op] = []
    innermost: dict[str, list[Op]] = {"matmul": [], "convolution": []}
    for root in roots:
        _visit(root, False, ops, innermost)
    kernels = []
    for event in events:
        if event.device_type() == DeviceType.CPU:
            if event.name().startswith("cu"):  # cudaLaunchKernel, cudaStreamSynchronize, cuLaunchKernel, ...
                ops.append(Op(event.name(), (), event.start_ns(), event.duration_ns(), event.start_thread_id(), False))
        elif not event.is_user_annotation():
            kernels.append(Kernel(event.name(), event.start_ns(), event.duration_ns(), event.device_resource_id()))
    ops.sort(key=lambda op: op.start_ns)
    return StepTrace(ops, sorted(kernels, key=lambda kernel: kernel.start_ns), innermost)


def _visit(root: Any, backward: bool, ops: list[Op], innermost: dict[str, list[Op]]) -> frozenset[str]:
    """Collect a node and all below it; returns the kinds of product found, so that a parent knows it holds one."""
    backward = backward or root.name.startswith(BACKWARD_NODE)
    op = None
    if hasattr(root.typed[1], "inputs"):  # an operator; the rest are allocations, runtime calls and kernels
        op = Op(
            name=root.name,
            inputs=tuple(_tensors(root.typed[1].inputs)),
            start_ns=root.start_time_ns,
            duration_ns=root.duration_time_ns,
            thread=root.start_tid,
            backward=backward,
        )
        ops.append(op)
    below = frozenset().union(*[_visit(child, backward, ops, innermost) for child in root.children])
    kind = _kind(root.name)
    if op is not None and kind and kind not in below:
        innermost[kind].append(op)
    return below | {kind} if kind else below


def _kind(name: str) -> str:
    short = name.rpartition("::")[2]
    if short in CONVOLUTIONS or (short.startswith(INDUCTOR_MATMUL) and "convolution" in short):
        return "convolution"
    return "matmul" if short in MATMULS or short.startswith(INDUCTOR_MATMUL) else ""


def _tensors(inputs: Iterable[Any]) -> Iterable[TensorInfo]:
    for value in inputs:
        if isinstance(value, list):
            yield from _tensors(value)
        elif hasattr(value, "sizes") and hasattr(value, "strides"):
            dtype = str(value.dtype).removeprefix("torch.")
            yield TensorInfo(dtype, tuple(value.sizes), tuple(value.strides))
