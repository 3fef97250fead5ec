"""Where a torch trial's batches come from: a loader, or batches that already lie on the device."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler

from harness.child.rig import Counters, Epochs
from harness.child.torch_side.bench import TorchBench, Treated
from harness.child.torch_side.ranks import share
from harness.spec import Kind, NotApplicable, Trial

RESIDENT_BATCHES = 4


class Source:
    """Gives device batches in a fixed order, from a loader or from batches that already lie on the device."""

    def __init__(self, trial: Trial, bench: TorchBench, treated: Treated, counters: Counters) -> None:
        self.trial, self.bench, self.treated, self.counters = trial, bench, treated, counters
        self.divides = trial.rank_count > 1 and trial.cell.kind is Kind.NUMERICS
        """Whether the ranks divide the batches that one process would have, so that they can compute the same."""
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
        self.to_device = treated.apply("feed", mover(bench.device))
        self.batches: Iterator[Any]
        self.rewind()

    def _loader(self) -> Any:
        bench = self.bench
        replacement = self.treated.apply("loader.replace", None)
        if replacement is not None:
            self._refuse_ranks("loader")
            return replacement
        arguments: dict[str, Any] = {
            "batch_size": bench.params["batch"],
            "shuffle": True,
            "drop_last": True,
            "generator": self.generator,
            "collate_fn": bench.workload.collate,
        }
        if bench.rank_count > 1 and not self.divides:
            arguments["sampler"] = self._sampler()
            del arguments["shuffle"]
        treated = self.treated.apply("loader", arguments)
        if treated.get("sampler") is not arguments.get("sampler"):
            self._refuse_ranks("sampler")
        return DataLoader(bench.dataset, **treated)

    def _sampler(self) -> DistributedSampler[Any]:
        """Gives each rank items that no other sees in the same epoch."""
        items, batch, ranks = len(self.bench.dataset), self.bench.params["batch"], self.bench.rank_count
        if items < int(batch) * ranks:
            raise NotApplicable(f"{items} items hold no batch of {batch} for each of {ranks} ranks; give it more data")
        return DistributedSampler(self.bench.dataset, ranks, self.bench.rank, seed=self.bench.seed, drop_last=True)

    def _refuse_ranks(self, replaced: str) -> None:
        if self.bench.rank_count > 1:
            raise NotApplicable(f"a treatment of the arm replaces the {replaced} that gives each rank data of its own")

    def rewind(self) -> None:
        """Start again at the first batch; a loader's first batch is fetched here, outside any timing."""
        self.generator.manual_seed(self.bench.seed)
        self.batches = iter(())  # ends the workers of the iterator before
        batches = _endless(self.bench.loader)
        if self.divides:
            batches = (share(batch, self.bench.rank, self.bench.rank_count) for batch in batches)
        if self.trial.cell.input == "resident":
            first = [self._count(next(batches)) for _ in range(RESIDENT_BATCHES)]
            self.batches = itertools.cycle([self.to_device(batch) for batch in first])
        else:
            first = [self._count(next(batches))]
            self.batches = self._stream(itertools.chain(first, batches))

    def _stream(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Host batches to batches on the device."""
        stream: Iterator[Any] = self.treated.apply("feed.ahead", map(self.to_device, self._waited_for(batches)))
        return stream

    def epochs(self, step: Callable[[], Any]) -> Epochs:
        """Whole passes over the loader, each with an iterator of its own; one is made here to count steps and items."""
        self.batches = iter(())
        self.items = []
        for batch in self.bench.loader:
            self._count(batch)
        steps = len(self.items)

        def run() -> None:
            self.batches = self._stream(self.bench.loader)
            for _ in range(steps):
                step()
            next(self.batches, None)  # to the end, where the workers stop
            self.batches = iter(())

        return Epochs(run, steps, self.items_per_step(), self.rewind)

    def next(self) -> Any:
        """The next batch, on the device."""
        return next(self.batches)

    def _count(self, batch: Any) -> Any:
        assert self.bench.workload.items is not None
        self.items.append(self.bench.workload.items(batch))
        return batch

    def _waited_for(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches, with the time that each is waited for counted, the start of a loader's workers included."""
        counters, clock = self.counters, time.perf_counter_ns
        start = clock()
        for batch in batches:
            counters.data_wait_ns += clock() - start
            yield batch
            start = clock()

    def items_per_step(self) -> float:
        """Mean over the batches counted when the source was wound up, of this rank."""
        return float(np.mean(self.items))

    def latest_loss(self) -> float | None:
        return None if self.loss is None else float(self.loss)

    def close(self) -> None:
        """End loader workers now rather than in the interpreter's shutdown."""
        self.batches = iter(())
        self.bench.loader = None


def _endless(loader: Any) -> Iterator[Any]:
    for epoch in itertools.count():
        if isinstance(getattr(loader, "sampler", None), DistributedSampler):
            loader.sampler.set_epoch(epoch)
        yield from loader


def mover(device: torch.device) -> Callable[[Any], Any]:
    """The plain feed: every tensor of a batch to the device, one blocking copy each."""

    def move(batch: Any) -> Any:
        if isinstance(batch, torch.Tensor):
            return batch.to(device)
        if isinstance(batch, Mapping):
            return {key: move(value) for key, value in batch.items()}
        return type(batch)(move(value) for value in batch)

    return move
