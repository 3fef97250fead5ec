"""Counts the floating-point operations of a step without computing one: shapes only, on tensors that hold no numbers.

Attention is counted in its plain form, since fused kernels are not counted on every device. A product of two numbers
and their sum are two operations. What recomputing adds is no operation of the model.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

from harness.child.torch_side.bench import TorchBench, Treated


@dataclasses.dataclass(frozen=True)
class StepFlops:
    """Operations of one step: of the workload's own model, and of the model that the arm computes with."""

    plain: int
    treated: int


def remembered(bench: TorchBench, treated: Treated, memo: Path) -> StepFlops:
    """The count for the latest batch; counting takes a second, so a file remembers it by shapes.

    The file belongs to one workload, its parameters, one arm and one state of the sources.
    """
    shapes = str(tree_map(lambda tensor: tuple(tensor.shape), bench.latest_batch))
    known = json.loads(memo.read_text()) if memo.is_file() else {}
    if shapes not in known:
        plain = of_a_step(bench)
        known[shapes] = [plain, of_a_step(bench, treated) if treated.fills("surgery") else plain]
        memo.parent.mkdir(parents=True, exist_ok=True)
        draft = memo.with_name(f".{memo.name}.{os.getpid()}")
        draft.write_text(json.dumps(known))
        draft.replace(memo)
    return StepFlops(*known[shapes])


def of_a_step(bench: TorchBench, treated: Treated | None = None) -> int:
    """Operations of forward and (train) backward for the latest batch, by the workload's model or the arm's.

    Of the arm, the surgery counts: it alone changes which products there are. It may look at the weights, so that its
    model is built with numbers first.
    """
    if treated is None:
        with torch.device("meta"):
            model = _model(bench)
    else:
        apart = dataclasses.replace(bench, facts={})  # hooks leave notes for their proof, which is over
        model = dataclasses.replace(treated, bench=apart).apply("surgery", _model(apart))
    with FakeTensorMode(allow_non_fake_inputs=True):
        _forget_numbers(model)
        batch = tree_map(_like, bench.latest_batch)
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            _run(bench, model, batch)
    return int(counter.get_total_flops())


def _model(bench: TorchBench) -> torch.nn.Module:
    assert bench.workload.model is not None
    model: torch.nn.Module = bench.workload.model(mode=bench.mode, **bench.params)
    return model.train(bench.mode == "train")


def _forget_numbers(model: torch.nn.Module) -> None:
    """Put tensors of the same shape in the place of parameters and buffers; what is tied stays tied."""
    made: dict[int, Any] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = made.setdefault(id(tensor), _like(tensor))


def _like(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty(tensor.shape, dtype=tensor.dtype)
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad) if is_parameter else empty


def _run(bench: TorchBench, model: Any, batch: Any) -> None:
    workload = bench.workload
    if bench.mode == "train":
        assert workload.loss is not None
        workload.loss(model, batch).backward()
    else:
        assert workload.predict is not None
        with torch.no_grad():
            workload.predict(model, batch)
