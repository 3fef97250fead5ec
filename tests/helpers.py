"""Small stand-ins that several tests share: a registry of toy plug-ins, a machine, an executor with no processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.arms import format_arm
from harness.launch import Launched
from harness.machine import Machine
from harness.record import ChildRecord, Outcome, Sample, TrialRecord, Window
from harness.registry import Registry
from harness.spec import (
    Kind,
    Param,
    PlainBench,
    ProcessChange,
    Proof,
    Requires,
    Source,
    Treatment,
    Trial,
    Workload,
)

OWN_LOCKS = """
import pathlib, harness.device_lock as device_lock
device_lock.runtime_folder = pathlib.Path.cwd
from harness.commands.cli import main
main()
"""
"""The command with its device locks in the current folder, so that a measurement going on elsewhere does not matter."""


def treatment(name: str, stage: str = "between", **more: Any) -> Treatment:
    return Treatment(
        name=name,
        summary=f"{name} for tests",
        sources=("https://example.org",),
        proof=Proof(after=lambda bench, snapshot, trace, **params: {}),
        hooks=more.pop("hooks", {stage: lambda value, bench, **params: value}),
        **more,
    )


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the toys have no torch")


def workload(name: str, **more: Any) -> Workload:
    return Workload(
        name=name,
        summary=f"{name} for tests",
        sources=(),
        unit="steps",
        traits=more.pop("traits", frozenset()),
        presets=more.pop("presets", {"tiny": {"batch": 4}, "small": {"batch": 8}}),
        dataset=_never,  # only said to exist, so that every treatment has something to act on
        model=_never,
        plain=more.pop("plain", lambda mode, seed, **params: PlainBench(lambda: None, 1)),
        **more,
    )


def registry(treatments: Sequence[Treatment], workloads: Sequence[Workload]) -> Registry:
    source = str(__file__)
    sources = {
        f"{constant.lower()}:{plugin.name}": Source(
            name=plugin.name, module="tests.helpers", path=source, constant=constant
        )
        for constant, plugins in (("TREATMENT", treatments), ("WORKLOAD", workloads))
        for plugin in plugins
    }
    return Registry({t.name: t for t in treatments}, {w.name: w for w in workloads}, sources)


TOYS = registry(
    [
        treatment("alpha"),
        treatment("beta", params={"n": Param(2, "a number", kind="int", minimum=1)}),
        treatment("cores", params={"n": Param("min(cores - 1, 8)", "from the machine", kind="int")}),
        treatment("compiler", "compile"),
        treatment("exporter", "compile"),
        treatment("half", "forward", occupies=("precision",)),
        treatment("third", "runtime", occupies=("precision",)),
        treatment("gpu_only", requires=Requires(devices=("cuda",))),
        treatment("conv_only", "layout", requires=Requires(traits=("conv",))),
    ],
    [workload("toy"), workload("conv_toy", traits=frozenset({"conv"}))],
)


def machine(cores: int = 4, **more: Any) -> Machine:
    return Machine(cores=cores, base_env_id="e1", hardware_id="h1", machine_id="m1", **more)


@dataclass
class FakeExecutor:
    """Answers at once with invented times: `effects` maps an arm to its true slow-down factor, default 1."""

    effects: dict[str, float] = field(default_factory=dict)
    noise: float = 0.002
    outcomes: Callable[[Trial], Outcome] = lambda trial: Outcome.OK
    seconds: Callable[[Trial], float] = lambda trial: 1.0
    """How long a trial takes."""
    before_trial: Callable[[Trial], None] = lambda trial: None
    already_so: dict[str, Any] = field(default_factory=dict)
    foreign_cores: Callable[[Trial], float] = lambda trial: 0.0
    """What other processes use of the processor while a trial is timed."""
    numerics: Callable[[Trial], dict[str, Any] | None] = lambda trial: None
    trials: list[Trial] = field(default_factory=list)

    def run(self, trial: Trial, change: ProcessChange, timeout_s: float) -> Launched:
        self.before_trial(trial)
        self.trials.append(trial)
        outcome = self.outcomes(trial)
        rank = ChildRecord(
            outcome=outcome,
            reason="" if outcome is Outcome.OK else f"made to end {outcome}",
            windows=self._windows(trial) if outcome is Outcome.OK and trial.cell.kind is Kind.TIMING else (),
            items_per_step=4.0,
            started_monotonic_ns=0,
            ended_monotonic_ns=10**9,
            steps_asked=15,
            steps_performed=15,
            numerics=self.numerics(trial) if trial.cell.kind is Kind.NUMERICS else None,
            already_so=self.already_so if trial.also_prove else {},
        )
        ranks = () if outcome in (Outcome.CRASHED, Outcome.TIMED_OUT) else (rank,)
        started = "2026-01-01T00:00:00.000000+00:00"
        busy = int(self.foreign_cores(trial) * 10**9)
        samples = tuple(
            Sample(trial_id=trial.trial_id, monotonic_ns=at, foreign_cpu_ns=used, cpu_busy_ns=at, steal_ns=0)
            for at, used in ((0, 0), (10**9, busy))
        )
        return Launched(
            outcome=outcome,
            reason=rank.reason,
            ranks=ranks,
            samples=samples,
            started_at=started,
            duration_ns=int(self.seconds(trial) * 1e9),
        )

    def _windows(self, trial: Trial) -> tuple[Window, ...]:
        rng = random.Random(f"{trial.cell.workload}/{trial.block_index}/{trial.position}/{format_arm(trial.cell.arm)}")
        level = 1e8 * self.effects.get(format_arm(trial.cell.arm), 1.0) * (1 + rng.gauss(0, self.noise))
        return tuple(
            Window(
                trial_id=trial.trial_id, window_index=i, step_count=1, host_ns=int(level * (1 + rng.gauss(0, 0.003)))
            )
            for i in range(trial.cell.measure.windows)
        )


@dataclass
class SilentProgress:
    """Keeps what a session says."""

    notes: list[str] = field(default_factory=list)
    records: list[TrialRecord] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def start(self, label: str, arm: str, done: int, planned: int, seconds_left: float | None) -> None:
        pass

    def finish(self, record: TrialRecord) -> None:
        self.records.append(record)
