"""A numerics trial: what an arm computes, step by step, for comparison with the plain model in double precision.

No time is taken. Every arm starts from the same parameters, random state and batches; the experiment has set the
workload's dropout to 0, so that nothing random is left but what the arm itself does. Several ranks divide the plain
arm's batch among them, and the mean of their losses is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch

from harness.child.rig import Rig
from harness.child.torch_side.assemble import assemble
from harness.spec import Arm, Proof, Trace, Treatment, Trial, Use, Workload

TRAIN_STEPS = 20
INFER_STEPS = 4
WARM_UP_STEPS = 2
SETTLING_STEPS = 30
"""At most so many steps until a loss scaler skips no more."""
ECHOES = 4
"""Plain runs from parameters moved by one rounding: how far apart training takes them is how chaotic the model is."""
VALUES_KEPT = 256
"""Of each output; evenly spaced."""


def follow(trial: Trial, workload: Workload, treatments: Sequence[Treatment]) -> dict[str, Any]:
    """What the arm computes; for the plain arm also the model in double precision, and how it amplifies rounding.

    `values`: per step, the loss (train) or values of the output (infer). `dtypes`: those of the matrix products and
    convolutions. `shape`: of the output. `reference`: the same of the double precision run.
    `echoes`: the values of runs whose parameters were moved by one rounding.
    """
    found = _run(trial, workload, treatments)
    if not treatments:
        found["reference"] = _run_with(DOUBLE, trial, workload)
        found["echoes"] = [_run_with(_echo(number), trial, workload)["values"] for number in range(ECHOES)]
    return found


def _run_with(treatment: Treatment, trial: Trial, workload: Workload) -> dict[str, Any]:
    arm = Arm((Use(treatment.name),))
    return _run(replace(trial, cell=replace(trial.cell, arm=arm)), workload, [treatment])


def _run(trial: Trial, workload: Workload, treatments: Sequence[Treatment]) -> dict[str, Any]:
    rig = assemble(trial, workload, treatments)
    try:
        _settle(rig)
        train = trial.cell.mode == "train"
        shape: list[int] = []
        values = []
        for _ in range(TRAIN_STEPS if train else INFER_STEPS):
            rig.step()
            if train:
                loss = rig.loss()
                assert loss is not None
                values.append([fmean(rig.bench.gather(loss))])
            else:
                output = _output(rig)
                shape = list(output.shape)
                values.append(_evenly(output))
        trace = rig.profile()
        assert trace is not None
        return {"values": values, "dtypes": sorted(_dtypes(trace) | _lowered(rig)), "shape": shape}
    finally:
        rig.close()


FLOATS = {"float64", "float32", "float16", "bfloat16"}


def _dtypes(trace: Trace) -> set[str]:
    """The formats of the operands of matrix products and convolutions, and of what ranks exchange."""
    operands = {tensor.dtype for op in (*trace.matmuls(), *trace.convolutions()) for tensor in op.inputs}
    return (operands | {exchanged.dtype for exchanged in trace.collectives()}) & FLOATS


def _lowered(rig: Rig) -> set[str]:
    """Formats to which the libraries of this device may round float32 operands."""
    libraries = ("precision.mkldnn",) if rig.bench.device.type == "cpu" else ("precision.cuda", "precision.cudnn")
    flags = {value for name, value in rig.facts().items() if name.startswith(libraries)}
    return {"bfloat16" if flag == "bf16" else "tensorfloat32" for flag in flags - {"none", "ieee"}}


def _settle(rig: Rig) -> None:
    """Compile, capture and let a loss scaler find its scale; then everything goes back to the start."""
    for count in range(SETTLING_STEPS):
        skipped = rig.counters.steps_skipped
        rig.step()
        if count + 1 >= WARM_UP_STEPS and not rig.agree(rig.counters.steps_skipped - skipped):
            break
    rig.restore()
    rig.synchronise()


def _output(rig: Rig) -> torch.Tensor:
    with torch.inference_mode():
        output = rig.bench.forward(rig.bench.sample_batch())
    assert isinstance(output, torch.Tensor), "predict returns a tensor"
    return output.detach().to("cpu", torch.float64)


def _evenly(output: torch.Tensor) -> list[float]:
    flat = output.flatten()
    chosen = torch.linspace(0, flat.numel() - 1, min(VALUES_KEPT, flat.numel())).long()
    kept: list[float] = flat[chosen].tolist()
    return kept


# ------------------------------------------------------------------------------------------------ double precision


def _double_model(model: Any, bench: Any) -> Any:
    return model.double()


def _double_batches(to_device: Callable[[Any], Any], bench: Any) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.double() if value.is_floating_point() else value
        if isinstance(value, Mapping):
            return {key: convert(each) for key, each in value.items()}
        return type(value)(convert(each) for each in value)

    return lambda batch: convert(to_device(batch))


DOUBLE = Treatment(
    name="float64",
    summary="the whole model and its inputs in double precision: the reference of numerics trials",
    sources=("https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html",),
    hooks={"layout": _double_model, "feed": _double_batches},
    proof=Proof(after=lambda bench, snapshot, trace: {}),
)


# ------------------------------------------------------------------------------------------------ roundings


def _echo(number: int) -> Treatment:
    """The plain model, every parameter one rounding up or down, by a coin that `number` seeds."""

    def move(model: Any, bench: Any) -> Any:
        coin = torch.Generator().manual_seed(number)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    sign = torch.randint(0, 2, parameter.shape, generator=coin).mul_(2).sub_(1).to(parameter)
                    parameter.mul_(1 + sign * torch.finfo(parameter.dtype).eps)
        return model

    return replace(
        DOUBLE, name="echo", summary="the plain model from parameters one rounding away", hooks={"layout": move}
    )
