"""Sets up a torch trial: builds the workload, applies the arm stage by stage in the order of `spec.STAGES`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from harness.arms import full_params
from harness.child.rig import Counters, Rig
from harness.child.torch_side import probe, ranks
from harness.child.torch_side.afterwards import Afterwards
from harness.child.torch_side.bench import TorchBench, Treated
from harness.child.torch_side.saved import Saved
from harness.child.torch_side.source import Source
from harness.child.torch_side.trace import profile_step
from harness.child.torch_side.update import counted, infer_step, load_step, train_step
from harness.spec import Step, Treatment, Trial, Workload


def import_workload(workload: Workload) -> None:
    """Import the libraries that the workload names, so that their cost counts as import and not as build.

    A distribution whose module has another name (pillow) is left to whatever imports it.
    """
    for package in workload.packages:
        if importlib.util.find_spec(package):
            importlib.import_module(package)


def assemble(trial: Trial, workload: Workload, treatments: Sequence[Treatment]) -> Rig:
    """Build everything the trial needs; the returned rig's `step` is the whole composition."""
    bench = TorchBench(
        workload=workload,
        mode=trial.cell.mode,
        params=dict(trial.cell.params),
        device=_device(trial),
        seed=trial.seed,
        rank=int(os.environ.get("RANK", "0")),
        rank_count=trial.rank_count,
    )
    pairs = [
        (treatment, full_params(use, treatment)) for treatment, use in zip(treatments, trial.cell.arm.uses, strict=True)
    ]
    treated = Treated(bench, pairs)
    treated.apply("runtime", None)
    if bench.rank_count > 1:
        ranks.join(bench.device)
    _seed(trial.seed)
    counters = Counters()
    source = Source(trial, bench, treated, counters)
    step = _build_step(bench, treated, source)
    composed = treated.apply("between", counted(treated.apply("capture", step), counters))
    state = Saved(bench, source)
    device = probe.device_probe(bench.device)
    return Rig(
        bench=bench,
        step=composed,
        items_per_step=source.items_per_step,
        agree=ranks.largest if bench.rank_count > 1 else float,
        counters=counters,
        counts_steps=True,
        waits_for_data=trial.cell.input == "loader",
        synchronise=device.synchronise,
        restore=state.restore,
        loss=source.latest_loss,
        mark_device=device.mark,
        reset_peaks=device.reset_peaks,
        peaks=device.peaks,
        reserved_bytes=device.reserved_bytes,
        compile_count=lambda: bench.compile_counters()["frames"],
        compile_ns=probe.compile_ns,
        forbid_recompiles=probe.forbid_recompiles,
        profile=lambda: profile_step(composed, bench.device),
        step_kind="load" if bench.workload.model is None else bench.mode,
        epochs=(lambda: source.epochs(composed)) if trial.cell.input == "loader" else None,
        afterwards=Afterwards(
            bench, treated, device.synchronise, Path(trial.compile_cache) / "operations.json"
        ).measure,
        facts=lambda: probe.runtime_facts(bench.device),
        close=source.close,
    )


def _device(trial: Trial) -> torch.device:
    if trial.cell.device == "cpu":
        return torch.device("cpu")
    index = (trial.device_index or 0) + int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _build_step(bench: TorchBench, treated: Treated, source: Source) -> Step:
    """The step that the workload's kind and mode ask for, its model and optimizer built and treated."""
    if bench.workload.model is None:
        return load_step(bench, source)
    _build_model(bench, treated)
    if bench.rank:
        _seed(bench.seed + bench.rank)  # the same model on all ranks, but not the same dropout
    if bench.mode == "train":
        _build_optimizer(bench, treated)
        return train_step(bench, treated, source)
    return infer_step(bench, treated, source)


def _build_model(bench: TorchBench, treated: Treated) -> None:
    assert bench.workload.model is not None
    model = bench.workload.model(mode=bench.mode, **bench.params)
    model.train(bench.mode == "train")
    bench.model = treated.apply("surgery", model)
    bench.model = bench.model.to(bench.device)
    for stage in ("layout", "recompute"):
        bench.model = treated.apply(stage, bench.model)
    bench.facts["parameters"] = sum(parameter.numel() for parameter in bench.model.parameters())
    for stage in ("compile", "shard"):
        bench.model = treated.apply(stage, bench.model)


def _build_optimizer(bench: TorchBench, treated: Treated) -> None:
    assert bench.workload.optimizer is not None
    kind, arguments = treated.apply("optimizer", bench.workload.optimizer())
    bench.optimizer = kind(bench.model.parameters(), **arguments)
