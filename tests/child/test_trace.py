"""The trace of small steps whose operators are known."""

from __future__ import annotations

import torch

from harness.child.torch_side.trace import profile_step

CPU = torch.device("cpu")


def test_a_convolution_is_seen_once_with_its_strides_forward_and_backward() -> None:
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    images = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    trace = profile_step(lambda: model(images).sum().backward(), CPU)
    forward, backward = trace.convolutions()
    assert (forward.backward, backward.backward) == (False, True)
    assert forward.inputs[0].shape == (2, 3, 8, 8)
    assert forward.inputs[0].strides == images.stride()
    assert forward.inputs[0].dtype == "float32"


def test_a_product_shows_the_dtype_it_ran_in_not_the_one_it_was_called_with() -> None:
    model, batch = torch.nn.Linear(8, 8), torch.randn(4, 8)

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(batch)

    (product,) = profile_step(step, CPU).matmuls()
    assert product.name == "aten::addmm"
    assert {tensor.dtype for tensor in product.inputs} == {"bfloat16"}


def test_operators_over_lists_show_every_tensor() -> None:
    tensors = [torch.zeros(2) for _ in range(3)]
    (op,) = profile_step(lambda: torch._foreach_add_(tensors, 1.0), CPU).named("aten::_foreach_add_")
    assert len(op.inputs) == 3


def test_operators_come_in_order_of_time() -> None:
    trace = profile_step(lambda: torch.ones(3).add(1).mul(2).sum(), CPU)
    starts = [op.start_ns for op in trace.ops]
    assert starts == sorted(starts)
    assert not trace.kernels
