"""What `harness gpu-check` tries: where each treatment is put to the proof, and what came of it.

Measures and writes nothing.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.arms import format_arm, nearest, parse_arm, resolve
from harness.machine import Machine
from harness.plan import make_plan, requires_of
from harness.record import Outcome, TrialRecord
from harness.registry import Registry
from harness.spec import Arm, Experiment, Kind, Treatment, UsageError, Use

SMALLEST = "tiny"


class Passed(enum.StrEnum):
    """What came of one check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_RUN = "not run: budget"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One treatment and the place where it is tried, or why there is none."""

    treatment: str
    arm: str = ""
    workload: str = ""
    experiment: str = ""
    numerics: bool = True
    """Whether what it computes is checked too: not where there is no torch."""
    obstacle: str = ""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One line of the table at the end."""

    what: str
    where: str
    result: Passed
    why: str = ""


@dataclass(frozen=True)
class CheckPlan:
    """Every treatment with its place or obstacle, and the experiments that try them, several arms each."""

    checks: tuple[Check, ...]
    experiments: tuple[Experiment, ...]


def plan_checks(
    registry: Registry,
    machine: Machine,
    device: str,
    *,
    names: Iterable[str] = (),
    first: Sequence[str] = (),
    processes: int = 1,
) -> CheckPlan:
    """Where each treatment (of those named, if any are) is tried on this device.

    `first` are the workloads that are preferred, in order; `processes` is how many experiments should be able to run
    at a time.
    """
    wanted = tuple(names) or tuple(sorted(registry.treatments))
    found: list[tuple[str, str, Experiment | None, str]] = []
    for name in wanted:
        if name not in registry.treatments:
            raise UsageError(
                f"no treatment named '{name}'{nearest(name, registry.treatments)} `harness list treatments` shows all"
            )
        found.append((name, *_place(registry.treatments[name], registry, machine, device, first)))
    places: dict[str, Experiment] = {}
    for _, arm, place, _ in found:
        if place is not None:
            known = places.setdefault(place.name, place)
            places[place.name] = replace(known, arms=(*known.arms, arm))
    most = max(1, math.ceil(sum(len(each.arms) for each in places.values()) / processes))
    experiments = [
        replace(each, name=f"{each.name}_{number}", arms=part)
        for each in places.values()
        for number, part in enumerate(_parts(each.arms, most), 1)
    ]
    home = {(each.name.rpartition("_")[0], arm): each.name for each in experiments for arm in each.arms}
    checks = tuple(
        Check(treatment=name, obstacle=reason)
        if place is None
        else Check(
            treatment=name,
            arm=arm,
            workload=f"{place.workloads[0]} {place.mode}",
            experiment=home[place.name, arm],
            numerics=registry.workloads[place.workloads[0]].needs_torch,
        )
        for name, arm, place, reason in found
    )
    return CheckPlan(checks, tuple(sorted(experiments, key=lambda each: -len(each.arms))))


def _parts(texts: tuple[str, ...], most: int) -> Iterator[tuple[str, ...]]:
    """The texts in parts of nearly equal length, none longer than `most`."""
    count = math.ceil(len(texts) / most)
    for number in range(count):
        yield texts[number::count]


def _place(
    treatment: Treatment, registry: Registry, machine: Machine, device: str, first: Sequence[str]
) -> tuple[str, Experiment | None, str]:
    """The treatment's arm, the first workload, mode and input that it applies to, and else why there is none."""
    try:
        arm = _arm(treatment, registry, machine)
    except UsageError as error:
        return treatment.name, None, str(error)
    reason = ""
    traits = set(treatment.requires.traits)
    fitting = sorted(
        _places(registry, device, first), key=lambda place: not traits <= registry.workloads[place.workloads[0]].traits
    )
    for experiment in fitting:
        try:
            plan = make_plan(replace(experiment, arms=(arm,)), registry, machine)
        except UsageError as error:
            reason = reason or str(error)
            continue
        if any(plan.runs.values()):
            return arm, experiment, ""
        reason = reason or plan.skips[0].reason
    return arm, None, reason


def _arm(treatment: Treatment, registry: Registry, machine: Machine) -> str:
    """The treatment by itself, with those it cannot do without."""
    scope = {"cores": machine.cores, "gpus": len(machine.gpus)}
    (use,) = resolve(parse_arm(treatment.name), registry.treatments, scope).uses
    needed = requires_of(treatment, use).with_treatments
    uses = (use, *(Use(name) for name in needed))
    return format_arm(resolve(Arm(tuple(sorted(uses))), registry.treatments, scope))


def _places(registry: Registry, device: str, first: Sequence[str]) -> Iterator[Experiment]:
    """The workloads, modes and inputs in which treatments are tried, in order."""
    known = [name for name in first if name in registry.workloads]
    standard = [name for name, workload in registry.workloads.items() if workload.standard]
    for name in dict.fromkeys((*known, *standard, *registry.workloads)):
        workload = registry.workloads[name]
        for mode in workload.modes:
            for input in workload.inputs:
                yield Experiment(
                    name=f"check_{name}_{mode}_{input}",
                    question="Do these treatments take effect here, and compute what they promise?",
                    workloads=(name,),
                    preset=SMALLEST,
                    mode=mode,
                    input=input,
                    device=device,
                )


# ------------------------------------------------------------------------------------------------ what came of it


def results_of(plan: CheckPlan, trials: Sequence[TrialRecord], spec_ids: dict[str, str]) -> list[Checked]:
    """The line of every treatment, from what is stored under the experiments' ids."""
    return [_result(check, [t for t in trials if t.spec_id == spec_ids.get(check.experiment)]) for check in plan.checks]


def _result(check: Check, trials: Sequence[TrialRecord]) -> Checked:
    if check.obstacle:
        return Checked(what=check.treatment, where="", result=Passed.SKIPPED, why=check.obstacle)
    own = [trial for trial in trials if trial.arm == check.arm]
    last = {trial.kind: trial for trial in own}
    proof, numerics, row = (last.get(kind) for kind in (Kind.PREPARE, Kind.NUMERICS, Kind.TIMING))

    def line(result: Passed, why: str) -> Checked:
        return Checked(what=check.arm, where=check.workload, result=result, why=why)

    if row is not None and row.outcome is Outcome.NOT_APPLICABLE:
        return line(Passed.SKIPPED, row.reason)
    if proof is None:
        return line(*_without_proof(trials))
    if proof.outcome is Outcome.NOT_APPLICABLE:
        return line(Passed.SKIPPED, proof.reason)
    for what, trial in (("proof", proof), ("numerics", numerics)):
        if trial is not None and trial.outcome is Outcome.TIMED_OUT:  # the limit is the time that was left
            return line(Passed.NOT_RUN, f"{what}: the time was over")
        if trial is not None and trial.outcome is not Outcome.OK:
            return line(Passed.FAILED, f"{what}: {trial.outcome}: {trial.reason}")
    if numerics is None and check.numerics:
        return line(Passed.NOT_RUN, "the proof holds; numerics were not reached")
    return line(Passed.PASSED, "proof and numerics hold" if numerics else "the proof holds")


def _without_proof(trials: Sequence[TrialRecord]) -> tuple[Passed, str]:
    """Nothing of the arm is stored: its baseline failed, or the time was over."""
    plain = [trial for trial in trials if trial.is_baseline and trial.kind == Kind.PREPARE]
    if plain and plain[-1].outcome is not Outcome.OK:
        return Passed.FAILED, f"its baseline: {plain[-1].outcome}: {plain[-1].reason}"
    return Passed.NOT_RUN, "the time for proofs was over"
