"""From the claims ledger to experiments that test it here, and from what is stored to a verdict on every claim.

Which claims can be tested is derived from what there is: the registry, the metrics, the machine. Measures and writes
nothing.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.arms import format_arm, parse_arm, resolve
from harness.config import Ledger
from harness.judge.claims import ClaimVerdict, ClaimWord, JudgedClaim, judge_claim, readings
from harness.judge.types import Comparison, Judgement
from harness.machine import Machine
from harness.metrics import METRICS
from harness.plan import default_preset, make_plan, resolve_device
from harness.registry import Registry
from harness.spec import Arm, Claim, Experiment, Measure, ParamsByTreatment, UsageError, Use

FEATURE, DESIGN = "harness:", "design:"
"""What a claim is about, where it is no treatment."""

PROTOCOLS: Mapping[str, Literal["epochs", "requests"]] = {"epochs": "epochs", "requests": "requests"}
"""Those of a claim that are protocols of the windows; all others are of whole steps."""


@dataclass(frozen=True, kw_only=True)
class PlannedClaim:
    """One row of the ledger: where it would be tested and with which arms, or why it cannot be."""

    claim: Claim
    workload: str = ""
    mode: str = "train"
    baseline: str = ""
    arm: str = ""
    experiment: str = ""
    """Name of the experiment that tests it; empty where none does."""
    obstacle: str = ""
    note: str = ""


@dataclass(frozen=True)
class ClaimsPlan:
    """Every claim with its fate, and the experiments that test those which can be."""

    rows: tuple[PlannedClaim, ...]
    experiments: tuple[Experiment, ...]
    device: str

    def rows_of(self, experiment: Experiment) -> list[PlannedClaim]:
        return [row for row in self.rows if row.experiment == experiment.name]

    def part_of(self, experiment: Experiment) -> ClaimsPlan:
        """The claims that this experiment tests."""
        return replace(self, rows=tuple(self.rows_of(experiment)), experiments=(experiment,))


@dataclass(frozen=True)
class Setting:
    """What claims are planned against."""

    ledger: Ledger
    registry: Registry
    machine: Machine
    device: str
    preset: str

    def resolved(self, text: str) -> str:
        """The canonical text of an arm on this machine."""
        scope = {"cores": self.machine.cores, "gpus": len(self.machine.gpus)}
        return format_arm(resolve(parse_arm(text), self.registry.treatments, scope))

    def obstacle(self, experiment: Experiment) -> str:
        """Why the experiment's arms cannot be compared here; empty where they can."""
        try:
            plan = make_plan(experiment, self.registry, self.machine)
        except UsageError as error:
            return str(error)
        return "" if any(plan.runs.values()) else plan.skips[0].reason


def plan_claims(
    ledger: Ledger, registry: Registry, machine: Machine, *, device: str = "auto", preset: str = "", article: str = ""
) -> ClaimsPlan:
    """Decide for every claim (of one article, where it is named) whether and how it is tested on this machine."""
    device = resolve_device(device, machine)
    setting = Setting(ledger, registry, machine, device, preset or default_preset(device))
    articles = {claim.article for claim in ledger.claims}
    if article and article not in articles:
        raise UsageError(f"no article '{article}' in the claims ledger; there are {', '.join(sorted(articles))}")
    wanted = [each for claim in ledger.claims if article in ("", claim.article) for each in _variants(claim)]
    rows, questions = [], []
    for claim in wanted:
        row, experiment, beside = _planned(claim, setting)
        rows.append(row)
        if experiment is not None:
            questions += [experiment, *beside]
    return ClaimsPlan(tuple(rows), tuple(_joined(questions)), device)


def _variants(claim: Claim) -> Iterator[Claim]:
    """The claim, and again for each further workload and metric that it names."""
    yield claim
    if claim.also_workload:
        yield replace(claim, id=f"{claim.id}@{claim.also_workload}", workload=claim.also_workload)
    if claim.also_metric:
        yield replace(claim, id=f"{claim.id}@{claim.also_metric}", metric=claim.also_metric)


# ------------------------------------------------------------------------------------------------ one claim


def _planned(claim: Claim, setting: Setting) -> tuple[PlannedClaim, Experiment | None, list[Experiment]]:
    """The row of a claim, the experiment that tests it, and those of the arms that are shown beside it."""
    row = PlannedClaim(claim=claim, mode=claim.mode)
    features = [name for name in claim.treatments if name.startswith((FEATURE, DESIGN))]
    obstacle = _missing_feature(features) or ("" if features else _missing_part(claim, setting))
    if obstacle or features:
        note = f"a feature of the harness: {', '.join(name.partition(':')[2] for name in features)}" if features else ""
        return replace(row, obstacle=obstacle, note=note), None, []
    if not readings(claim):
        return row, None, []
    arm, baseline = _arm_text(claim.treatments, claim.params), _arm_text(claim.before, claim.before_params)
    try:
        arm, baseline = setting.resolved(arm), setting.resolved(baseline)
    except UsageError as error:
        return replace(row, obstacle=str(error)), None, []
    row = replace(row, arm=arm, baseline=baseline)
    if arm == baseline:
        same = "it compares points of an axis, not arms" if claim.axes else "on this machine both arms are the same"
        return replace(row, obstacle=same), None, []
    workload, obstacle = _place(claim, arm, baseline, setting)
    row = replace(row, workload=workload, note="stands for any workload" if claim.workload == "any" else "")
    if obstacle:
        return replace(row, obstacle=obstacle), None, []
    experiment = _experiment(claim, workload, (arm,), baseline, setting)
    return replace(row, experiment=experiment.name), experiment, list(_beside(claim, workload, row, setting))


def _missing_feature(names: Iterable[str]) -> str:
    """The first feature or design that the harness does not have, in a sentence."""
    for name in names:
        kind, _, feature = name.partition(":")
        modules = (f"harness.{feature}", f"harness.commands.{feature}_command")
        if f"{kind}:" == DESIGN:
            return f"the ledger names no factors for the design {feature} yet"
        if not any(importlib.util.find_spec(module) for module in modules):
            return f"the harness has no {feature} yet"
    return ""


def _missing_part(claim: Claim, setting: Setting) -> str:
    """The first thing that the claim needs and that is not there, in a sentence."""
    names = [*claim.treatments, *claim.before]
    metrics = [way.metric for way in readings(claim)] or [claim.metric]
    kind, _, needed = claim.needs.partition(":")
    checks = [
        *((name in setting.registry.treatments, f"the harness has no treatment {name} yet") for name in names),
        (
            claim.workload == "any" or claim.workload in setting.registry.workloads,
            f"the harness has no workload {claim.workload} yet",
        ),
        (any(metric in ("", *METRICS) for metric in metrics), f"the harness has no metric {metrics[0]} yet"),
        (
            kind != "package" or setting.machine.package_version(needed) is not None,
            f"needs the package {needed}, which is not installed",
        ),
        (kind != "root" or setting.machine.is_root, "needs root"),
        (kind != "cuda" or setting.device == "cuda", "needs a CUDA device; this run is on a CPU"),
    ]
    return next((sentence for met, sentence in checks if not met), "")


def _arm_text(names: Sequence[str], params: ParamsByTreatment) -> str:
    return format_arm(Arm(tuple(Use(name, tuple(sorted(params.get(name, {}).items()))) for name in sorted(names))))


def _place(claim: Claim, arm: str, baseline: str, setting: Setting) -> tuple[str, str]:
    """The workload to test it on, and why it cannot be tested there. For "any" the first that the arms apply to."""
    candidates = [claim.workload] if claim.workload != "any" else [
        name for name in setting.ledger.any if name in setting.registry.workloads
    ]  # fmt: skip
    reasons: dict[str, str] = {}
    for name in candidates:
        reasons[name] = setting.obstacle(_experiment(claim, name, (arm,), baseline, setting))
        if not reasons[name]:
            return name, ""
    return next(iter(reasons.items()), ("", "the ledger names no workload that is here"))


def _experiment(claim: Claim, workload: str, arms: tuple[str, ...], baseline: str, setting: Setting) -> Experiment:
    """The experiment of one article, workload and baseline that these arms belong to."""
    analogue = claim.scope == "cuda" and setting.device != "cuda"
    parts = ["claims", claim.article, workload, claim.mode]
    parts += [claim.protocol] if claim.protocol in PROTOCOLS else []
    parts += ["analogue"] if analogue else []
    parts += ["from", re.sub(r"[^\w.+-]+", "-", baseline).strip("-")] if baseline else []
    return Experiment(
        name="_".join(parts),
        question=f"Do the claims of article {claim.article} about {workload} hold here?",
        workloads=(workload,),
        preset=setting.preset,
        mode=claim.mode,
        input=_input(workload, setting),
        device=setting.device,
        arms=arms,
        baseline=baseline,
        axes=claim.axes,
        measure=Measure(protocol=PROTOCOLS.get(claim.protocol, "steps")),
    )


def _input(workload: str, setting: Setting) -> str:
    """The default input where the workload has it."""
    inputs = setting.registry.workloads[workload].inputs if workload in setting.registry.workloads else ()
    default = Experiment().input
    return default if default in inputs or not inputs else inputs[0]


def _beside(claim: Claim, workload: str, row: PlannedClaim, setting: Setting) -> Iterator[Experiment]:
    """What is measured beside the claim without a verdict on it, where it can be."""
    alone = [_arm_text((name,), claim.params) for name in claim.alternatives]
    together = [_arm_text(claim.modern, claim.params)] if claim.modern else []
    more = [_arm_text((*claim.treatments, *claim.also_treatments), claim.params)] if claim.also_treatments else []
    pairs = [(text, row.baseline) for text in (*alone, *together, *more)]
    pairs += [(row.arm, _arm_text((name,), claim.before_params)) for name in claim.alternatives_before]
    for arm, baseline in pairs:
        try:
            arm, baseline = setting.resolved(arm), setting.resolved(baseline)
        except UsageError:  # a treatment that is not here; the claim's own row does not hang on it
            continue
        experiment = _experiment(claim, workload, (arm,), baseline, setting)
        if not setting.obstacle(experiment):
            yield experiment


# ------------------------------------------------------------------------------------------------ experiments


def _joined(experiments: Iterable[Experiment]) -> list[Experiment]:
    """Experiments that differ in their arms only become one, so that they share their baseline."""
    joined: dict[str, Experiment] = {}
    for each in experiments:
        known = joined.get(each.name, replace(each, arms=()))
        joined[each.name] = replace(known, arms=tuple(dict.fromkeys((*known.arms, *each.arms))))
    return list(joined.values())


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What could be measured next: an experiment, until each of its arms has so many blocks."""

    experiment: str
    blocks: int
    seconds: float
    """About how long that takes."""
    claims: int
    """How many claims wait for it."""
    analogue: bool = False
    """Whether none of them can get a verdict on this device."""


def next_turn(turns: Iterable[Turn], left: float) -> Turn | None:
    """The turn to take with so many seconds left; None where none fits.

    All are brought to their first look before any to its second; verdicts come before analogues, and then what settles
    most claims a minute.
    """

    def rank(turn: Turn) -> tuple[int, bool, float]:
        return turn.blocks, turn.analogue, turn.seconds / turn.claims if turn.claims else math.inf

    return min((turn for turn in turns if turn.seconds <= left), key=rank, default=None)


# ------------------------------------------------------------------------------------------------ verdicts


def judge_claims(
    plan: ClaimsPlan, stored: Mapping[str, Experiment], judge: Callable[[str], Judgement]
) -> list[JudgedClaim]:
    """The verdict on every row, from whatever stored experiment holds its cells with the most blocks."""
    known: dict[str, Judgement] = {}

    def judged(spec_id: str) -> Judgement:
        if spec_id not in known:
            known[spec_id] = judge(spec_id)
        return known[spec_id]

    def found(row: PlannedClaim) -> JudgedClaim:
        wanted = next((each for each in plan.experiments if each.name == row.experiment), None)
        candidates = [key for key, each in stored.items() if wanted is not None and _holds(each, wanted, row)]
        measured = [(judged(key), _of_row(judged(key).comparisons, row)) for key in candidates]
        judgement, comparisons = max(measured, key=_weight, default=(None, []))
        rope = judgement.experiment.analysis.rope if judgement else Experiment().analysis.rope
        verdict = judge_claim(row.claim, comparisons, rope=rope, device=plan.device, obstacle=row.obstacle)
        return JudgedClaim(
            claim=row.claim,
            verdict=_with_feature(verdict, row),
            workload=row.workload,
            arm=row.arm,
            baseline=row.baseline,
            experiment=judgement.experiment.name if judgement else row.experiment,
            spec_id=judgement.spec_id if judgement else "",
            note=row.note,
        )

    return [found(row) for row in plan.rows]


def _with_feature(verdict: ClaimVerdict, row: PlannedClaim) -> ClaimVerdict:
    """A claim about a feature of the harness has no number; what there is says so."""
    return replace(verdict, reason=row.note) if verdict.word is ClaimWord.NO_VERDICT and row.note else verdict


def _holds(stored: Experiment, wanted: Experiment, row: PlannedClaim) -> bool:
    """Whether a stored experiment has the cells of the row: everything equal but other arms, and the analysis."""
    same = ("preset", "mode", "device", "input", "data", "seed", "params")
    return (
        row.workload in stored.workloads
        and row.arm in stored.arms
        and row.baseline == stored.baseline
        and dict(stored.axes) == dict(wanted.axes)
        and stored.measure.protocol == wanted.measure.protocol
        and all(getattr(stored, name) == getattr(wanted, name) for name in same)
    )


def _of_row(comparisons: Iterable[Comparison], row: PlannedClaim) -> list[Comparison]:
    return [each for each in comparisons if (each.workload, each.arm) == (row.workload, row.arm)]


def _weight(found: tuple[Judgement | None, Sequence[Comparison]]) -> int:
    return max((each.blocks for each in found[1]), default=-1)
