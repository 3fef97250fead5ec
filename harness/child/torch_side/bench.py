"""What treatments see of a torch trial under way, and how a stage's hooks are applied to a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.child import host
from harness.child.torch_side import probe, ranks
from harness.child.torch_side.saved import save
from harness.spec import Params, Pause, Treatment, Workload


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
    kept: dict[str, Any] = field(default_factory=dict)
    latest_batch: Any = None
    without_sync: Pause = nullcontext

    def gather(self, value: Any) -> list[Any]:
        return ranks.gather(value, self.rank_count)

    def processes(self) -> list[Any]:
        return host.processes()

    def mapped_libraries(self) -> list[str]:
        return host.mapped_libraries()

    def compile_counters(self) -> Mapping[str, int]:
        return probe.compile_counters()

    def sample_batch(self) -> Any:
        return self.latest_batch

    def saved_state(self) -> Callable[[], None]:
        return save(self.model, self.optimizer)


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
