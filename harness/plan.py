"""From an experiment and a machine to ordered trials, and skips with their reasons. Measures and writes nothing."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.arms import format_arm, full_params, nearest, parse_arm, resolve
from harness.registry import Registry
from harness.spec import (
    STAGES,
    Arm,
    Experiment,
    Measure,
    Params,
    Requires,
    Scalar,
    Treatment,
    UsageError,
    Use,
    Workload,
)

if TYPE_CHECKING:
    from harness.machine import Machine

PRESETS = ("tiny", "small", "full")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Place:
    """Where arms are compared: one workload at one set of parameters."""

    workload: str
    params: Params
    preset: str
    mode: str
    input: str
    axes: Params

    @property
    def label(self) -> str:
        axes = ", ".join(f"{key}={value}" for key, value in self.axes.items())
        return f"{self.workload} ({axes})" if axes else self.workload


@dataclass(frozen=True)
class Skip:
    """An arm that is not tried at a place, with the reason in a sentence."""

    place: Place
    arm: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What will be measured: the experiment resolved for this machine, its places, the arms at each, and the skips."""

    experiment: Experiment
    places: tuple[Place, ...]
    arms: Mapping[str, Arm]
    """Every arm by its canonical text, the baseline included."""
    baseline: str
    runs: Mapping[Place, tuple[str, ...]]
    """The arms to measure at each place, the baseline first; empty where nothing is left to compare."""
    skips: tuple[Skip, ...]
    threads: int

    @property
    def device(self) -> str:
        return self.experiment.device

    def treated(self, place: Place) -> tuple[str, ...]:
        return tuple(arm for arm in self.runs[place] if arm != self.baseline)

    def foreign_uses(self, place: Place) -> tuple[Use, ...]:
        """The treatments of the other arms, whose proofs are tried on the baseline."""
        own = set(self.arms[self.baseline].uses)
        return tuple(sorted({use for arm in self.treated(place) for use in self.arms[arm].uses} - own))


def make_plan(experiment: Experiment, registry: Registry, machine: Machine) -> Plan:
    """Resolve the experiment against the machine and decide what can run; raises `UsageError` for what never could."""
    scope = {"cores": machine.cores, "gpus": len(machine.gpus)}
    device = resolve_device(experiment.device, machine)
    baseline = resolve(parse_arm(experiment.baseline), registry.treatments, scope)
    written = [resolve(parse_arm(text), registry.treatments, scope) for text in _arm_texts(experiment)]
    arms = {format_arm(arm): arm for arm in [baseline, *written]}
    base_text = format_arm(baseline)
    if len(arms) < 2 and not experiment.is_aa:
        raise UsageError("the experiment has no arm besides its baseline; name at least one treatment")
    explicit = experiment.design == "arms"
    conflicts = {text: reason for text, arm in arms.items() if (reason := conflict(arm, registry.treatments))}
    if conflicts and (explicit or base_text in conflicts):
        text, reason = next(iter(conflicts.items()))
        raise UsageError(f"arm '{text}': {reason}")
    resolved = _resolved_experiment(experiment, device, machine, arms, base_text)
    places = tuple(_places(resolved, registry))
    runs, skips = {}, []
    for place in places:
        workload = registry.workload(place.workload)
        able: list[str] = []
        for text, arm in arms.items():
            reason = conflicts.get(text) or unmet_by_arm(arm, workload, place, device, machine, registry.treatments)
            reason = reason or unmet_by_protocol(resolved.measure, workload, place)
            if reason:
                skips.append(Skip(place, text, reason))
            else:
                able.append(text)
        compared = base_text in able and (len(able) > 1 or experiment.is_aa)
        runs[place] = tuple(able) if compared else ()
    return Plan(resolved, places, arms, base_text, runs, tuple(skips), machine.cores)


def resolve_device(device: str, machine: Machine) -> str:
    """ "cpu" or "cuda"; auto takes CUDA where the machine has a GPU."""
    if device not in DEVICES:
        raise UsageError(f"device '{device}' is unknown; it is one of {', '.join(DEVICES)}")
    if device == "auto":
        return "cuda" if machine.gpus else "cpu"
    if device == "cuda" and not machine.gpus:
        raise UsageError("device 'cuda': this machine has no CUDA device that NVML can see; use DEVICE=cpu")
    return device


def default_preset(device: str) -> str:
    """What a device can train in reasonable time."""
    return "full" if device == "cuda" else "small"


def _arm_texts(experiment: Experiment) -> list[str]:
    if experiment.is_aa:
        if experiment.replicates < 2:
            raise UsageError(f"design 'aa' compares at least 2 replicates, not {experiment.replicates}")
        return []
    if experiment.design == "arms":
        return list(experiment.arms)
    from harness.judge.designs import design_arms

    return list(design_arms(experiment.design, experiment.treatments))


def _resolved_experiment(
    experiment: Experiment, device: str, machine: Machine, arms: Mapping[str, Arm], baseline: str
) -> Experiment:
    preset = experiment.preset or default_preset(device)
    for what, value, allowed in (
        ("preset", preset, PRESETS),
        ("mode", experiment.mode, ("train", "infer")),
        ("input", experiment.input, ("loader", "resident")),
        ("protocol", experiment.measure.protocol, ("steps", "epochs", "requests")),
    ):
        if value not in allowed:
            raise UsageError(f"{what} '{value}' is unknown{nearest(value, allowed)} it is one of {', '.join(allowed)}")
    if experiment.measure.protocol == "requests" and experiment.mode != "infer":
        raise UsageError(
            f"protocol 'requests' times one request at a time; mode '{experiment.mode}' answers none, use mode 'infer'"
        )
    if not experiment.workloads:
        raise UsageError("no workload is named; give one with WORKLOAD=..., `harness list workloads` shows all")
    return replace(
        experiment,
        device=device,
        preset=preset,
        baseline=baseline,
        arms=tuple(text for text in arms if text != baseline),
        measure=resolved_measure(experiment.measure, device),
    )


def resolved_measure(measure: Measure, device: str) -> Measure:
    """The device's defaults in place of zeros."""
    on_cpu = device == "cpu"
    requests = measure.protocol == "requests"  # 300, of which a steady process keeps the 100 that p99 needs
    return replace(
        measure,
        windows=measure.windows or (300 if requests else 15 if on_cpu else 30),
        warmup_steps=measure.warmup_steps or (2 if on_cpu else 10),
        timed_seconds=measure.timed_seconds or (15.0 if on_cpu and not requests else 60.0),
    )


# ------------------------------------------------------------------------------------------------ places


def _places(experiment: Experiment, registry: Registry) -> Iterable[Place]:
    _refuse_unknown_params(experiment, registry)
    for name in dict.fromkeys(experiment.workloads):
        workload = registry.workload(name)
        if experiment.preset not in workload.presets:
            raise UsageError(
                f"workload '{name}' has no preset '{experiment.preset}'; it has {', '.join(workload.presets)}"
            )
        params = dict(workload.presets[experiment.preset])
        params.update(_checked_params(workload, params, experiment.params))
        axes = {key: values for key, values in experiment.axes.items() if key in params}
        for values in itertools.product(*map(dict.fromkeys, axes.values())):  # each point once
            point = dict(zip(axes, values, strict=True))
            yield Place(
                workload=name,
                params=Frozen({**params, **_checked_params(workload, params, point)}),
                preset=experiment.preset,
                mode=experiment.mode,
                input=experiment.input,
                axes=Frozen(point),
            )


def _refuse_unknown_params(experiment: Experiment, registry: Registry) -> None:
    """Data or a parameter that no workload takes would change nothing; an axis without values leaves nothing."""
    workloads = [registry.workload(name) for name in experiment.workloads]
    if experiment.data and all(workload.prepare is None for workload in workloads):
        names = ", ".join(experiment.workloads)
        raise UsageError(f"data '{experiment.data}' is of no use to {names}, which reads none; leave it out")
    presets = [workload.presets.get(experiment.preset, {}) for workload in workloads]
    known = sorted({key for preset in presets for key in preset})
    for what, keys in (("axis", experiment.axes), ("parameter", experiment.params)):
        for key in keys:
            if key not in known:
                raise UsageError(
                    f"{what} '{key}': {', '.join(experiment.workloads)} has no such parameter{nearest(key, known)} "
                    f"it has {', '.join(known)}"
                )
    for key, values in experiment.axes.items():
        if not values:
            raise UsageError(f"axis '{key}' has no values; give at least one, or leave the axis out")


class Frozen(dict[str, Scalar]):
    """A mapping that can be hashed, so that places can be keys."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items())))


def _checked_params(workload: Workload, known: Params, given: Params) -> dict[str, Scalar]:
    for key, value in given.items():
        if key in known and type(known[key]) is not type(value):
            kind = type(known[key]).__name__
            raise UsageError(f"workload '{workload.name}': parameter '{key}' is {value!r}; it takes a {kind}")
    return {key: value for key, value in given.items() if key in known}


# ------------------------------------------------------------------------------------------------ what can run


def conflict(arm: Arm, treatments: Mapping[str, Treatment]) -> str | None:
    """Why the arm's treatments cannot be combined, or None. Derived from stages, resources and their own word."""
    for first, second in itertools.combinations(arm.uses, 2):
        one, two = treatments[first.name], treatments[second.name]
        for stage in STAGES:
            if stage.one and stage.name in one.hooks and stage.name in two.hooks:
                return f"{one.name} and {two.name} both fill the stage '{stage.name}', which takes one"
        shared = set(one.occupies) & set(two.occupies)
        if shared:
            return f"{one.name} and {two.name} both set the {sorted(shared)[0]}"
    for use in arm.uses:
        treatment = treatments[use.name]
        if treatment.conflicts:
            others = {u.name: full_params(u, treatments[u.name]) for u in arm.uses if u.name != use.name}
            reason = treatment.conflicts(full_params(use, treatment), others)
            if reason:
                return reason
    return None


def unmet_by_arm(
    arm: Arm, workload: Workload, place: Place, device: str, machine: Machine, treatments: Mapping[str, Treatment]
) -> str | None:
    """The first need of the workload or of a treatment that this place or machine does not meet, as a sentence."""
    own = Requires(modes=workload.modes, inputs=workload.inputs, devices=workload.devices, packages=workload.packages)
    if workload.needs_torch:
        own = replace(own, torch="2.11", packages=("torch", *own.packages))
    reason = unmet(own, workload, place, device, machine, arm)
    if reason:
        return f"{workload.name} {reason}"
    for use in arm.uses:
        treatment = treatments[use.name]
        missing = sorted({stage.acts_on for stage in STAGES if stage.name in treatment.hooks} - workload.has)
        if missing:
            return f"{use.name} acts on a torch workload's {missing[-1]}; {workload.name} has none"
        reason = unmet(requires_of(treatment, use), workload, place, device, machine, arm)
        if reason:
            return f"{use.name} {reason}"
    return None


def requires_of(treatment: Treatment, use: Use) -> Requires:
    """What a treatment needs with these parameters."""
    return treatment.requires_for(**full_params(use, treatment)) if treatment.requires_for else treatment.requires


def unmet_by_protocol(measure: Measure, workload: Workload, place: Place) -> str | None:
    """Why whole passes cannot be timed at a place, or None: there must be a loader to pass over."""
    if measure.protocol == "epochs" and ("data" not in workload.has or place.input != "loader"):
        what = f"{place.input} input" if "data" in workload.has else "no dataset"
        return f"protocol 'epochs' times whole passes over a loader; {workload.name} has {what} here"
    return None


def unmet(requires: Requires, workload: Workload, place: Place, device: str, machine: Machine, arm: Arm) -> str | None:
    """The first unmet need, worded to follow the name of what needs it: "needs 2 CUDA devices, this machine has 0"."""
    gpu = machine.gpus[0] if machine.gpus else None
    capability = gpu.capability if gpu else None
    checks: list[tuple[bool, str]] = [
        (place.mode in requires.modes, f"needs mode {_either(requires.modes)}, not {place.mode}"),
        (place.input in requires.inputs, f"needs input {_either(requires.inputs)}, not {place.input}"),
        (device in requires.devices, f"needs a {_either(requires.devices).upper()} device; this run is on {device}"),
        (
            len(machine.gpus) >= requires.gpus,
            f"needs {requires.gpus} CUDA devices, this machine has {len(machine.gpus)}",
        ),
        (
            requires.capability is None or (capability is not None and tuple(capability) >= requires.capability),
            f"needs compute capability {requires.capability}, this GPU has {capability}",
        ),
        (
            device == "cpu" or len(machine.gpus) >= requires.ranks,
            f"needs {requires.ranks} CUDA devices, one a rank; this machine has {len(machine.gpus)}",
        ),
        (not requires.root or machine.is_root, "needs root"),
        (
            not requires.root or machine.allows_privileged,
            "changes the machine itself, which has to be asked for with --allow-privileged",
        ),
    ]
    checks += [
        (trait in workload.traits, f"acts on {trait}, which {workload.name} does not have") for trait in requires.traits
    ]
    checks += [(name in arm.names, f"needs {name} in the same arm") for name in requires.with_treatments]
    checks += [
        (machine.has_command(name), f"needs the command {name}, which is not installed") for name in requires.commands
    ]
    for what, known, needed in (
        ("library", machine.has_library, requires.libraries),
        ("package", machine.has_package, requires.packages),
    ):
        for entry in needed:
            names = (entry,) if isinstance(entry, str) else entry
            sentence = f"needs the {what} {_either(names)}, which is not installed"
            checks.append((any(map(known, names)), sentence))
    for met, sentence in checks:
        if not met:
            return sentence
    if requires.torch:
        have = machine.package_version("torch")
        if have is None or _version(have) < _version(requires.torch):
            return f"needs torch {requires.torch} or later, this environment has {have}"
    return None


def _either(words: Sequence[str]) -> str:
    return " or ".join(words)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text.split("+")[0])[:3])


# ------------------------------------------------------------------------------------------------ before the blocks


def prepared_arms(plan: Plan, place: Place, registry: Registry) -> tuple[str, ...]:
    """The arms that get a short trial first: the baseline, for the others' proofs, and what fills a compile cache."""

    def compiles(arm: str) -> bool:
        return any("compile" in registry.treatments[use.name].hooks for use in plan.arms[arm].uses)

    return tuple(arm for arm in plan.runs[place] if arm == plan.baseline or compiles(arm))


def checked_arms(plan: Plan, place: Place, registry: Registry) -> tuple[str, ...]:
    """The arms that get a numerics trial, the plain one first: it is what the others are compared with."""
    if not plan.experiment.numerics or "model" not in registry.workload(place.workload).has:
        return ()
    return tuple(dict.fromkeys(("", *plan.runs[place])))


def trials_before(plan: Plan, registry: Registry) -> int:
    """Trials before the first block, of all places."""
    places = [place for place in plan.places if plan.runs[place]]
    return sum(len(each(plan, place, registry)) for place in places for each in (prepared_arms, checked_arms))


def trials_in_round(plan: Plan) -> int:
    """Trials of the first block of every place: later ones have fewer, as arms are decided."""
    return sum(len(block_order(plan, place, 0, plan.treated(place))) for place in plan.places if plan.runs[place])


def fewest_blocks(plan: Plan) -> int:
    """Blocks after which it can be over: identical runs are compared in all that were announced."""
    analysis = plan.experiment.analysis
    return analysis.max_blocks if plan.experiment.is_aa else min(analysis.min_blocks, analysis.max_blocks)


# ------------------------------------------------------------------------------------------------ order


def baseline_count(treated: int) -> int:
    """Baseline runs in a block of k treated arms: ceil(sqrt(k)), the best split for k comparisons with one control."""
    return math.ceil(math.sqrt(treated))


def block_order(plan: Plan, place: Place, block_index: int, undecided: Iterable[str]) -> tuple[str, ...]:
    """The arms of one block in their order: a random permutation, and its reverse in the block after it.

    The pairs keep each arm as often before the baseline as after it. Arms already decided are left out without moving
    the others; the baseline is thinned to what the remaining arms need.
    """
    if plan.experiment.is_aa:
        return (plan.baseline,) * plan.experiment.replicates
    undecided = set(undecided)
    treated = plan.treated(place)
    order = [*treated, *[plan.baseline] * baseline_count(len(treated))]
    random.Random(f"{plan.experiment.seed}/{place.label}/{block_index // 2}").shuffle(order)
    if block_index % 2:
        order.reverse()
    kept = [arm for arm in order if arm == plan.baseline or arm in undecided]
    surplus = kept.count(plan.baseline) - baseline_count(max(1, len(undecided & set(treated))))
    while surplus > 0:
        # alternate the end that loses a baseline, so that thinning favours neither
        index = kept.index(plan.baseline) if block_index % 2 else len(kept) - 1 - kept[::-1].index(plan.baseline)
        del kept[index]
        surplus -= 1
    return tuple(kept)
