"""Where each treatment is tried: the first workload it applies to, unless something else shows more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.arms import format_arm
from harness.plan import conflict
from harness.spec import Arm, Scalar, Trial
from tests.contracts import trying

ORDER = ("gpt2_small", "resnet50", "vit_base", "bert_base", "noop")
"""Workloads from quick to slow; others follow."""


@dataclass(frozen=True)
class Place:
    """A workload with parameters at which an arm shows its effect, and a baseline does not have it already."""

    workload: str
    mode: str = "train"
    input: str = "loader"
    threads: int = 1
    params: tuple[tuple[str, Scalar], ...] = ()

    def trial(self, arm: str, folder: Path, prove: str = "") -> Trial:
        return trying.make_trial(
            self.workload,
            arm,
            folder,
            mode=self.mode,
            input=self.input,
            prove=prove,
            threads=self.threads,
            **dict(self.params),
        )


@dataclass(frozen=True)
class Example:
    """An arm that shows a treatment: parameters other than the defaults, and what it needs beside it."""

    arm: str = ""
    place: Place | None = None


EXAMPLES = {
    "attention_block_sparse": Example(place=Place("longformer", "infer")),
    "cpu_affinity": Example("cpu_affinity(cores=1)"),
    "omp_threads": Example("omp_threads(n=1)", Place("resnet50", threads=2)),
    "pad_to_8": Example(place=Place("gpt2_small", params=(("vocabulary", 1001),))),
    "sdpa_backend": Example(place=Place("vit_base")),
    "torch_compile": Example(
        place=Place("gpt2_small", "infer", params=(("layers", 1), ("width", 32), ("sequence_length", 8)))
    ),
    "compile_blocks": Example(
        place=Place("gpt2_small", "infer", params=(("layers", 2), ("width", 32), ("sequence_length", 8)))
    ),
}
"""What the defaults would not show: at them the baseline has it already, or it takes long."""


def arm_of(name: str) -> str:
    """The treatment as an arm, with those it cannot do without."""
    example = EXAMPLES.get(name, Example())
    if name == "python_env":
        example = Example(f"python_env(path={trying.other_python()})")
    needed = trying.known(name).requires.with_treatments
    return "+".join(sorted([example.arm or name, *needed]))


def places(name: str, folder: Path) -> Iterator[Place]:
    """Every workload and mode to which the treatment applies here, the one that shows most first."""
    first = EXAMPLES.get(name, Example()).place
    if first:
        yield first
    workloads = sorted(trying.registry().workloads, key=lambda key: (ORDER.index(key) if key in ORDER else 9, key))
    for workload in workloads:
        for mode in trying.registry().workload(workload).modes:
            inputs = trying.registry().workload(workload).inputs
            place = Place(workload, mode, "loader" if "loader" in inputs else inputs[0])
            if place != first and not trying.unmet(place.trial(arm_of(name), folder)):
                yield place


def why_nowhere(name: str, folder: Path) -> str:
    """The sentence that a plan would store for the first workload."""
    return trying.unmet(Place(ORDER[0]).trial(arm_of(name), folder)) or "no workload of this machine has what it needs"


def companies(names: list[str], folder: Path) -> dict[tuple[Place, bool], list[Arm]]:
    """Pack treatments that get along into few arms, by place and by whether a process must be started afresh."""
    packed: dict[tuple[Place, bool], list[Arm]] = {}
    for name in names:
        place = next(places(name, folder), None)
        if place is None or trying.unmet(place.trial(arm_of(name), folder)):
            continue
        uses = trying.resolved(arm_of(name)).uses
        afresh = any("process" in trying.known(use.name).hooks for use in uses)
        arms = packed.setdefault((place, afresh), [])
        for index, arm in enumerate(arms):
            merged = _merged(arm, Arm(uses))
            if merged is not None:
                arms[index] = merged
                break
        else:
            arms.append(Arm(uses))
    return packed


def _merged(one: Arm, other: Arm) -> Arm | None:
    uses = {use.name: use for use in one.uses}
    if any(uses.setdefault(use.name, use) != use for use in other.uses):
        return None
    merged = Arm(tuple(sorted(uses.values())))
    return None if conflict(merged, trying.registry().treatments) else merged


def written(arm: Arm) -> str:
    return format_arm(arm)
