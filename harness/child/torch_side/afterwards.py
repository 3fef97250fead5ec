"""What is measured after the windows and the proofs: parts of a step, items, allocations, operations.

None of it is step time. Each measure takes a few repetitions of its own, waits for the device around every part, and
may fail alone: then its columns stay null, and the trial's facts say why.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from harness.child.torch_side import flops
from harness.child.torch_side.bench import TorchBench, Treated

REPETITIONS = 3
PART_SECONDS = 3.0
"""A step that takes longer is not taken apart again: it would cost more than it tells."""
ITEMS = 32
ITEM_SECONDS = 2.0
ALLOCATION_BYTES = tuple(4**power for power in range(5, 13))
"""1 KiB to 16 MiB."""
ALLOCATIONS = 20
SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Afterwards:
    """The trial that was measured, how to wait for its device, and where counted operations are remembered."""

    bench: TorchBench
    treated: Treated
    synchronise: Callable[[], None]
    memo: Path

    def measure(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Columns of `record.TrialRecord`, and the reasons of those measures that could not be taken."""
        columns: dict[str, Any] = {}
        reasons: dict[str, str] = {}
        for take in (self.step_parts, self.workload_parts, self.items, self.allocation, self.operations):
            try:
                columns |= take()
            except Exception as error:  # an arm that cannot do one of these still has its step time
                reasons[take.__name__] = f"{type(error).__name__}: {error}"
        return columns, reasons

    # -------------------------------------------------------------------------------------------- a step in parts

    def step_parts(self) -> dict[str, Any]:
        """Forward, backward and optimizer for the latest batch; and whether the same batch gives the same bits."""
        if self.bench.workload.model is None:
            return {}
        return self._training_parts() if self.bench.mode == "train" else self._inference_part()

    def _training_parts(self) -> dict[str, Any]:
        bench, batch, clock = self.bench, self.bench.latest_batch, self._clock
        forward: list[int] = []
        backward: list[int] = []
        results: list[list[torch.Tensor]] = []
        for _ in self._repetitions():
            bench.optimizer.zero_grad(set_to_none=True)
            with self._random_state():
                start = clock()
                loss = bench.forward(batch)
                middle = clock()
                loss.backward()
                end = clock()
            forward.append(middle - start)
            backward.append(end - middle)
            gradients = [parameter.grad for parameter in bench.model.parameters() if parameter.grad is not None]
            # two, to be compared; copied, since a replayed graph writes to the same memory again
            results = [*results[-1:], [loss.detach().clone(), *(gradient.clone() for gradient in gradients)]]
        start = clock()
        bench.optimizer.step()
        stepped = clock() - start
        bench.optimizer.zero_grad(set_to_none=True)
        return {
            "forward_ns": int(median(forward)),
            "backward_ns": int(median(backward)),
            "optimizer_ns": stepped,
            "bit_identical": same_bits(*results) if len(results) == 2 else None,
        }

    def _inference_part(self) -> dict[str, Any]:
        times: list[int] = []
        results: list[list[torch.Tensor]] = []
        for _ in self._repetitions():
            with torch.inference_mode(), self._random_state():
                start = self._clock()
                output = self.bench.forward(self.bench.latest_batch)
                times.append(self._clock() - start)
            results = [*results[-1:], [output.clone()] if isinstance(output, torch.Tensor) else []]
        compared = same_bits(*results) if len(results) == 2 and results[0] else None
        return {"forward_ns": int(median(times)), "bit_identical": compared}

    def workload_parts(self) -> dict[str, Any]:
        """The parts that the workload names, one after the other, each under the arm's own forward stage."""
        bench = self.bench
        if bench.mode != "infer" or not bench.workload.parts:
            return {}
        times: dict[str, list[int]] = {name: [] for name in bench.workload.parts}
        for _ in self._repetitions():
            value = bench.latest_batch
            for name, part in bench.workload.parts.items():
                run = self.treated.apply("forward", lambda given, part=part: part.run(bench.model, given))
                with torch.inference_mode():
                    start = self._clock()
                    value = run(value)
                    times[name].append(self._clock() - start)
        found = {
            name: {"ns": int(median(times[name])), "items": part.items(bench.latest_batch)}
            for name, part in bench.workload.parts.items()
        }
        return {"parts_json": json.dumps(found, sort_keys=True)}

    # -------------------------------------------------------------------------------------------- one item

    def items(self) -> dict[str, Any]:
        """One item of the dataset, made in this process: the whole, and without its transform."""
        dataset = self.bench.dataset
        if self.treated.fills("loader.replace") or not hasattr(dataset, "__getitem__"):
            return {}
        whole = _item_ns(dataset)
        with _transform_left_out(dataset) as left_out:
            return {"sample_ns": whole, "decode_ns": _item_ns(dataset) if left_out else None}

    # -------------------------------------------------------------------------------------------- the allocator

    def allocation(self) -> dict[str, Any]:
        """A tensor allocated and given back, of 1 KiB to 16 MiB, by the allocator as the windows left it."""
        times = []
        for size in ALLOCATION_BYTES:
            for _ in range(ALLOCATIONS):
                start = time.perf_counter_ns()
                torch.empty(size, dtype=torch.uint8, device=self.bench.device)
                times.append(time.perf_counter_ns() - start)
        return {"allocation_ns": float(median(times))}

    # -------------------------------------------------------------------------------------------- operations

    def operations(self) -> dict[str, Any]:
        """Floating-point operations an item, of the untreated model and of the model that the arm computes with."""
        bench = self.bench
        if bench.workload.model is None or bench.workload.items is None:
            return {}
        items = bench.workload.items(bench.latest_batch)
        counted = flops.remembered(bench, self.treated, self.memo)
        return {"model_flops_per_item": counted.plain / items, "flops_per_item": counted.treated / items}

    # -------------------------------------------------------------------------------------------- clock and state

    def _repetitions(self) -> Iterator[int]:
        """A few, or one where that alone takes long; several ranks must all do the same number."""
        started = time.monotonic()
        for count in range(REPETITIONS):
            yield count
            if self.bench.rank_count == 1 and time.monotonic() - started > PART_SECONDS:
                return

    def _clock(self) -> int:
        self.synchronise()
        return time.perf_counter_ns()

    @contextmanager
    def _random_state(self) -> Iterator[None]:
        """The same random numbers for every repetition."""
        device = self.bench.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self.bench.seed)
            yield


def same_bits(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
    """Whether two lists of tensors are equal bit for bit; a NaN equals itself, and 0 is not -0."""
    return len(ours) == len(theirs) and all(
        torch.equal(_bits(one), _bits(two)) for one, two in zip(ours, theirs, strict=True)
    )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.contiguous().view(SAME_SIZE[local.element_size()])


def _item_ns(dataset: Any) -> float:
    """Median time of an item, over some that are spread evenly; fewer where they take long."""
    count = min(ITEMS, len(dataset))
    times: list[int] = []
    for place in range(count):
        start = time.perf_counter_ns()
        dataset[place * len(dataset) // count]
        times.append(time.perf_counter_ns() - start)
        if sum(times) > ITEM_SECONDS * 1e9:
            break
    return float(median(times))


@contextmanager
def _transform_left_out(dataset: Any) -> Iterator[bool]:
    """Whether the dataset, or the one it wraps, has a transform; inside, items come without it."""
    owner = dataset
    while owner is not None and not hasattr(owner, "transform"):
        owner = getattr(owner, "plain", None)
    if owner is None:
        yield False
        return
    kept, owner.transform = owner.transform, lambda picture: picture
    try:
        yield True
    finally:
        owner.transform = kept
