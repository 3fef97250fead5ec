"""Sets up a torch trial: builds the workload, applies the arm stage by stage in the order of `spec.STAGES`."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from harness.arms import full_params
from harness.child.rig import Counters, Rig
from harness.child.torch_side import probe, witness
from harness.spec import Params, Treatment, Trial, Workload

RESIDENT_BATCHES = 4


def import_workload(workload: Workload) -> None:
    """Import the libraries that the workload names, so that their cost counts as import and not as build.

    A distribution whose module has another name (pillow) is left to whatever imports it.
    """
    for package in workload.packages:
        if importlib.util.find_spec(package):
            importlib.import_module(package)


@dataclass
class TorchBench:
    """What treatments may see of a trial; see `spec.Bench`."""

    workload: Workload
    mode: str
    params: Params
    device: torch.device
    seed: int
    rank: int
    rank_count: int
    model: Any = None
    optimizer: Any = None
    loader: Any = None
    dataset: Any = None
    forward: Any = None
    step_times_ns: list[int] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    latest_batch: Any = None

    def processes(self) -> list[Any]:
        return witness.processes()

    def mapped_libraries(self) -> list[str]:
        return witness.mapped_libraries()

    def compile_counters(self) -> Mapping[str, int]:
        return witness.compile_counters()

    def sample_batch(self) -> Any:
        return self.latest_batch


@dataclass
class Treated:
    """The arm's treatments with their full parameters, applied stage by stage."""

    bench: TorchBench
    pairs: Sequence[tuple[Treatment, dict[str, Any]]]

    def apply(self, stage: str, value: Any) -> Any:
        for treatment, params in self.pairs:
            if stage in treatment.hooks:
                value = treatment.hooks[stage](value, self.bench, **params)
        return value

    def fills(self, stage: str) -> bool:
        return any(stage in treatment.hooks for treatment, _ in self.pairs)


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
    _seed(trial.seed)
    counters = Counters()
    source = _Source(trial, bench, treated, counters)
    _build_model(bench, treated)
    if bench.mode == "train":
        _build_optimizer(bench, treated)
        step = _train_step(bench, treated, source, counters)
    else:
        step = _infer_step(bench, treated, source, counters)
    composed = treated.apply("capture", treated.apply("between", step))
    state = _Saved(bench, source)
    device = probe.device_probe(bench.device)
    return Rig(
        bench=bench,
        step=composed,
        items_per_step=source.items_per_step,
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
        profile=lambda: witness.profile_step(composed, bench.device),
        facts=lambda: probe.runtime_facts(bench.device),
        close=source.close,
    )


def _device(trial: Trial) -> torch.device:
    if trial.cell.device == "cpu":
        return torch.device("cpu")
    index = int(os.environ.get("LOCAL_RANK", trial.device_index or 0))
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


# ------------------------------------------------------------------------------------------------ data


class _Source:
    """Gives device batches in a fixed order, from a loader or from batches that already lie on the device."""

    def __init__(self, trial: Trial, bench: TorchBench, treated: Treated, counters: Counters) -> None:
        self.trial, self.bench, self.treated, self.counters = trial, bench, treated, counters
        self.loss: Any = None
        self.items: list[int] = []
        workload = bench.workload
        assert workload.dataset is not None
        dataset = workload.dataset(
            Path(trial.data_folder),
            mode=bench.mode,
            seed=trial.seed,
            on_bad_item=trial.on_bad_item,
            **bench.params,
        )
        bench.dataset = treated.apply("data", dataset)
        self.generator = torch.Generator()
        bench.loader = self._loader()
        self.to_device = treated.apply("feed", _mover(bench.device))
        self.host_batches: Iterator[Any]
        self.next: Callable[[], Any]
        self.rewind()

    def _loader(self) -> Any:
        bench = self.bench
        if self.treated.fills("loader.replace"):
            return self.treated.apply("loader.replace", None)
        arguments: dict[str, Any] = {
            "batch_size": bench.params["batch"],
            "shuffle": True,
            "drop_last": True,
            "generator": self.generator,
            "collate_fn": bench.workload.collate,
        }
        if bench.rank_count > 1:
            arguments["sampler"] = torch.utils.data.DistributedSampler(
                bench.dataset, bench.rank_count, bench.rank, seed=bench.seed
            )
            del arguments["shuffle"]
        return DataLoader(bench.dataset, **self.treated.apply("loader", arguments))

    def rewind(self) -> None:
        """Start again at the first batch; a loader's first batch is fetched here, outside any timing."""
        self.generator.manual_seed(self.bench.seed)
        self.host_batches = iter(())  # ends the workers of the iterator before
        batches = _endless(self.bench.loader)
        if self.trial.cell.input == "resident":
            first = [self._count(next(batches)) for _ in range(RESIDENT_BATCHES)]
            self.next = itertools.cycle([self.to_device(batch) for batch in first]).__next__
            self.host_batches = iter(())
        else:
            first = [self._count(next(batches))]
            self.host_batches = itertools.chain(first, batches)
            self.next = self._waiting_next(self.host_batches)

    def _count(self, batch: Any) -> Any:
        assert self.bench.workload.items is not None
        self.items.append(self.bench.workload.items(batch))
        return batch

    def _waiting_next(self, batches: Iterator[Any]) -> Callable[[], Any]:
        counters, to_device, clock = self.counters, self.to_device, time.perf_counter_ns

        def next_batch() -> Any:
            start = clock()
            batch = next(batches)
            counters.data_wait_ns += clock() - start
            return to_device(batch)

        return next_batch

    def items_per_step(self) -> float:
        """Mean over the batches counted when the source was wound up, over all ranks."""
        return float(np.mean(self.items)) * self.bench.rank_count

    def latest_loss(self) -> float | None:
        return None if self.loss is None else float(self.loss)

    def close(self) -> None:
        """End loader workers now rather than in the interpreter's shutdown."""
        self.host_batches = iter(())
        self.bench.loader = None


def _endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def _mover(device: torch.device) -> Callable[[Any], Any]:
    def move(batch: Any) -> Any:
        if isinstance(batch, torch.Tensor):
            return batch.to(device)
        if isinstance(batch, Mapping):
            return {key: move(value) for key, value in batch.items()}
        return type(batch)(move(value) for value in batch)

    return move


# ------------------------------------------------------------------------------------------------ model and update


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


def _train_step(bench: TorchBench, treated: Treated, source: _Source, counters: Counters) -> Callable[[], None]:
    loss_of, model, optimizer = bench.workload.loss, bench.model, bench.optimizer
    assert loss_of is not None
    bench.forward = treated.apply("forward", lambda batch: loss_of(model, batch))
    forward = bench.forward

    def plain_apply() -> bool:
        optimizer.step()
        return True

    split = treated.apply("update.split", lambda batch: [batch])
    backward = treated.apply("update.backward", lambda loss: loss.backward())
    clip = treated.apply("update.clip", lambda: None)
    apply = treated.apply("update.apply", plain_apply)
    zero = treated.apply("update.zero", optimizer.zero_grad)

    def finish(loss: Any) -> None:
        clip()
        if apply():
            counters.steps_performed += 1
        else:
            counters.steps_skipped += 1
        zero()
        source.loss = loss

    def whole_step() -> None:
        batch = bench.latest_batch = source.next()
        loss = forward(batch)
        backward(loss)
        finish(loss.detach())

    def split_step() -> None:
        batch = bench.latest_batch = source.next()
        total = 0.0
        parts = split(batch)
        for part in parts:
            loss = forward(part) / len(parts)
            backward(loss)
            total += loss.detach()
        finish(total)

    return split_step if treated.fills("update.split") else whole_step


def _infer_step(bench: TorchBench, treated: Treated, source: _Source, counters: Counters) -> Callable[[], None]:
    predict, model = bench.workload.predict, bench.model
    assert predict is not None
    bench.forward = treated.apply("forward", lambda batch: predict(model, batch))
    forward = bench.forward

    def step() -> None:
        with torch.inference_mode():
            batch = bench.latest_batch = source.next()
            forward(batch)
        counters.steps_performed += 1

    return step


# ------------------------------------------------------------------------------------------------ restoring


class _Saved:
    """Parameters, buffers and random state before warm-up, put back in place (captured graphs keep their addresses)."""

    def __init__(self, bench: TorchBench, source: _Source) -> None:
        self.bench, self.source = bench, source
        self.cpu_state = torch.get_rng_state()
        self.python_state, self.numpy_state = random.getstate(), np.random.get_state()
        self.cuda_state = torch.cuda.get_rng_state(bench.device) if bench.device.type == "cuda" else None
        self.tensors = [(tensor, tensor.detach().cpu().clone()) for tensor in _tensors(bench.model)]

    @torch.no_grad()
    def restore(self) -> None:
        for tensor, saved in self.tensors:
            tensor.copy_(saved)
        self.tensors = []  # the copies would count in the peak of the timed part
        if self.bench.optimizer is not None:
            for state in self.bench.optimizer.state.values():
                for value in state.values():
                    if isinstance(value, torch.Tensor):
                        value.zero_()
        self.source.rewind()
        random.setstate(self.python_state)
        np.random.set_state(self.numpy_state)
        torch.set_rng_state(self.cpu_state)
        if self.cuda_state is not None:
            torch.cuda.set_rng_state(self.cuda_state, self.bench.device)


def _tensors(model: Any) -> list[torch.Tensor]:
    if not isinstance(model, torch.nn.Module):
        return []
    return [*model.parameters(), *model.buffers()]
