"""Sets up a trial of a workload without torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.arms import full_params
from harness.child import host
from harness.child.rig import Rig, nothing
from harness.spec import Pause, Treatment, Trial, Workload


@dataclass
class PlainBench:
    """What treatments may see of a trial without torch; see `spec.Bench`."""

    workload: Workload
    mode: str
    params: Mapping[str, Any]
    seed: int
    device: str = "cpu"
    rank: int = 0
    rank_count: int = 1
    model: Any = None
    optimizer: Any = None
    loader: Any = None
    dataset: Any = None
    forward: Any = None
    step_times_ns: list[int] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    without_sync: Pause = nullcontext

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def processes(self) -> list[Any]:
        return host.processes()

    def mapped_libraries(self) -> list[str]:
        return host.mapped_libraries()

    def compile_counters(self) -> Mapping[str, int]:
        return {}

    def sample_batch(self) -> Any:
        return None

    def saved_state(self) -> Callable[[], None]:
        return nothing


def assemble(trial: Trial, workload: Workload, treatments: Sequence[Treatment]) -> Rig:
    """Build the workload's plain step and wrap it in the arm's treatments."""
    assert workload.plain is not None
    params = dict(trial.cell.params)
    bench = PlainBench(workload, trial.cell.mode, params, trial.seed)
    prepared = {"folder": Path(trial.data_folder)} if workload.prepare else {}
    plain = workload.plain(mode=trial.cell.mode, seed=trial.seed, **prepared, **params)
    step = plain.step
    for treatment, use in zip(treatments, trial.cell.arm.uses, strict=True):
        if "between" in treatment.hooks:
            step = treatment.hooks["between"](step, bench, **full_params(use, treatment))
    return Rig(
        bench=bench,
        step=step,
        items_per_step=lambda: float(plain.items_per_step),
        facts=lambda: {"python": sys.version.split()[0], **plain.facts()},
    )


def import_workload(workload: Workload) -> None:
    """Nothing to import ahead: the counterpart on the torch side loads torch and the model library."""
