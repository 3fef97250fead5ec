"""Which trials make a block, which blocks make a contrast, and why an arm has none."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from harness.judge.equal_work import undeclared_differences
from harness.judge.family import primary_metrics
from harness.judge.processes import Process, common_start, processes
from harness.judge.types import Word
from harness.metrics import PRIMARY, WindowTable
from harness.record import FAILURES, RETRIES, Outcome, TrialRecord
from harness.spec import Experiment, Kind, Scalar

FEWEST_DROPPED = 2
DROPPED_SHARE = 0.25
"""A contrast is invalid when more than max(2, 25 %) of its blocks had to be dropped."""

WITHHELD = frozenset({Outcome.NOT_APPLIED, Outcome.WRONG_NUMERICS, Outcome.NOT_COMPARABLE})
"""One such trial of an arm and no number of the arm is shown, whatever its other trials did."""

BlockKey = tuple[str, int]
"""(session, block index)"""


@dataclass(frozen=True)
class Place:
    """Where arms are compared: one workload at one point of the axes, on one hardware class."""

    hardware_id: str
    workload: str
    axes: tuple[tuple[str, Scalar], ...]

    def __str__(self) -> str:
        return ", ".join([self.workload, *(f"{name}={value}" for name, value in self.axes)])


@dataclass(frozen=True, eq=False)
class Baselines:
    """The baseline's replicates in one block, each with its cut; shared by the contrasts that cut them alike."""

    processes: tuple[Process, ...]
    starts: tuple[int, ...]
    _values: dict[str, tuple[float, ...] | None] = field(default_factory=dict, repr=False)
    _mean_logs: dict[str, float] = field(default_factory=dict, repr=False)

    def values(self, metric: str) -> tuple[float, ...] | None:
        """The metric of each replicate; None where any of them has no value."""
        if metric not in self._values:
            found = [process.value(metric, start) for process, start in zip(self.processes, self.starts, strict=True)]
            known = tuple(value for value in found if value is not None)
            self._values[metric] = known if len(known) == len(found) else None
        return self._values[metric]

    def mean_log(self, metric: str) -> float:
        """Mean log over the replicates, all of which must be positive."""
        if metric not in self._mean_logs:
            values = self.values(metric)
            assert values is not None
            self._mean_logs[metric] = math.fsum(math.log(value) for value in values) / len(values)
        return self._mean_logs[metric]


@dataclass(frozen=True, eq=False)
class Pair:
    """One complete block of one contrast."""

    session_id: str
    block_index: int
    treated: Process
    start: int
    baselines: Baselines
    order: int


@dataclass(frozen=True)
class Obstacle:
    """Why a contrast has no verdict, and whether more blocks could change that."""

    word: Word
    reason: str
    final: bool


@dataclass(frozen=True, eq=False)
class Contrast:
    """One arm against the baseline at one place in one metric: its complete blocks, or what stands in the way."""

    place: Place
    arm: str
    baseline: str
    pairs: tuple[Pair, ...]
    dropped: int = 0
    obstacle: Obstacle | None = None
    notes: tuple[str, ...] = ()
    failure: str = ""
    """How often one of its trials failed for good, and of what: said whatever the complete blocks show."""
    metric: str = PRIMARY


@dataclass(eq=False)
class Block:
    """The trials of one round at one place: the last attempt of each position."""

    session_id: str
    index: int
    trials: dict[int, TrialRecord] = field(default_factory=dict)
    _cuts: dict[tuple[tuple[str, int], ...], Baselines] = field(default_factory=dict)

    @cached_property
    def by_arm(self) -> dict[tuple[str, bool], list[TrialRecord]]:
        """Trials by (arm, is baseline)."""
        found: dict[tuple[str, bool], list[TrialRecord]] = {}
        for trial in self.trials.values():
            found.setdefault((trial.arm, trial.is_baseline), []).append(trial)
        return found

    def baselines(self, processes: tuple[Process, ...], starts: tuple[int, ...]) -> Baselines:
        """The block's baselines, cut at these starts; the same object for the same cut."""
        key = tuple((process.record.trial_id, start) for process, start in zip(processes, starts, strict=True))
        return self._cuts.setdefault(key, Baselines(processes, starts))

    @cached_property
    def outcomes(self) -> frozenset[Outcome]:
        return frozenset(trial.outcome for trial in self.trials.values())


# ------------------------------------------------------------------------------------------------ places


def declared_places(experiment: Experiment, records: Sequence[TrialRecord]) -> list[Place]:
    """Every workload at every point of the axes that it has, on each hardware class seen: known before any data.

    A workload without one of the parameters (its records say so) is compared without that axis.
    """
    hardware = list(dict.fromkeys(record.hardware_id for record in records)) or [""]
    found = []
    for workload in dict.fromkeys(experiment.workloads):
        params = [json.loads(record.params_json) for record in records if record.workload == workload]
        axes = {
            key: values for key, values in experiment.axes.items() if not params or any(key in each for each in params)
        }
        for point in itertools.product(*axes.values()):
            found += [Place(each, workload, tuple(zip(axes, point, strict=True))) for each in hardware]
    return found


def records_by_place(places: Iterable[Place], records: Iterable[TrialRecord]) -> dict[Place, list[TrialRecord]]:
    """The records of each place; what belongs to none (another point, a workload not asked for) is left out."""
    axes: dict[str, tuple[str, ...]] = {}
    groups: dict[Place, list[TrialRecord]] = {}
    for place in places:
        axes[place.workload] = tuple(key for key, _ in place.axes)
        groups[place] = []
    for record in records:
        if record.workload in axes:
            params = json.loads(record.params_json) if axes[record.workload] else {}
            point = tuple((key, params[key]) for key in axes[record.workload] if key in params)
            groups.get(Place(record.hardware_id, record.workload, point), []).append(record)
    return groups


# ------------------------------------------------------------------------------------------------ blocks


def blocks_of(records: Iterable[TrialRecord]) -> list[Block]:
    """The blocks of one place in the order in which they were measured, interrupted ones that were run again left
    out.
    """
    blocks: dict[BlockKey, Block] = {}
    for record in sorted(records, key=lambda record: (record.started_at, record.attempt)):
        if record.kind != Kind.TIMING or record.block_index is None or record.position is None:
            continue
        key = (record.session_id, record.block_index)
        block = blocks.setdefault(key, Block(*key))
        earlier = block.trials.get(record.position)
        if earlier is None or record.attempt >= earlier.attempt:
            block.trials[record.position] = record
    return [block for block in blocks.values() if not _was_run_again(block, blocks.values())]


def _was_run_again(block: Block, blocks: Iterable[Block]) -> bool:
    """Whether its session was interrupted in this block, and a later session ran the round again, whole."""
    machine = next(iter(block.trials.values())).machine_id
    last = max(other.index for other in blocks if other.session_id == block.session_id)
    return block.index == last and any(
        other.index == block.index
        and len(other.trials) > len(block.trials)
        and next(iter(other.trials.values())).machine_id == machine
        for other in blocks
    )


def contrasts(
    experiment: Experiment, records: Sequence[TrialRecord], windows: Mapping[str, WindowTable]
) -> list[Contrast]:
    """Every declared comparison at every place, with its complete blocks or the reason why it has none."""
    ran = [record for record in records if record.kind == Kind.TIMING and record.outcome == Outcome.OK]
    ready = processes(ran, windows)
    groups = records_by_place(declared_places(experiment, records), records)
    found = []
    for place, here in groups.items():
        blocks = blocks_of(here)
        by_arm: dict[tuple[str, bool], list[TrialRecord]] = {}
        for record in here:
            by_arm.setdefault((record.arm, record.is_baseline), []).append(record)
        for asked in _questions(experiment):
            own = by_arm.get((experiment.baseline, True) if experiment.is_aa else (asked.arm, False), ())
            contrast = _contrast(place, asked, own, by_arm.get((experiment.baseline, True), ()), blocks, ready)
            found += [replace(contrast, metric=metric) for metric in primary_metrics(experiment)]
    return found


@dataclass(frozen=True)
class Question:
    """Who is compared with whom."""

    arm: str
    baseline: str
    members: Callable[[Block], Sequence[TrialRecord]]
    """block -> the treated trial and then its baselines; nothing where the block lacks one"""


def _questions(experiment: Experiment) -> list[Question]:
    """The declared comparisons: every arm with the baseline, or every pair of identical replicates."""
    if experiment.is_aa:
        pairs = itertools.combinations(range(experiment.replicates), 2)
        return [Question(f"run {two + 1}", f"run {one + 1}", _replicates(experiment, two, one)) for one, two in pairs]
    return [
        Question(arm, experiment.baseline, _arms(experiment.baseline, arm))
        for arm in experiment.arms
        if arm != experiment.baseline
    ]


def _arms(baseline: str, arm: str) -> Callable[[Block], Sequence[TrialRecord]]:
    def members(block: Block) -> Sequence[TrialRecord]:
        treated, baselines = block.by_arm.get((arm, False)), block.by_arm.get((baseline, True))
        return [treated[0], *baselines] if treated and baselines else ()

    return members


def _replicates(experiment: Experiment, *which: int) -> Callable[[Block], Sequence[TrialRecord]]:
    def members(block: Block) -> Sequence[TrialRecord]:
        places = replicate_places(experiment.replicates, block.index)
        trials = [block.trials.get(places[each]) for each in which]
        return [trial for trial in trials if trial is not None] if all(trials) else ()

    return members


def replicate_places(count: int, block_index: int) -> tuple[int, ...]:
    """The place in its block of each of so many identical runs: a random order, reversed in the block after it.

    The runs of a block differ in nothing but their place, so that which of them is called the first may be settled
    here, by a rule made before any data: as for the arms of an experiment, each is as often early as late.
    """
    places = list(range(count))
    random.Random(f"{count}/{block_index // 2}").shuffle(places)
    return tuple(count - 1 - place if block_index % 2 else place for place in places)


def _contrast(
    place: Place,
    asked: Question,
    own: Sequence[TrialRecord],
    baseline: Sequence[TrialRecord],
    blocks: Sequence[Block],
    ready: Mapping[str, Process],
) -> Contrast:
    """`own` and `baseline` are all trials of the two sides, which say why one has no number."""
    withheld = next((record for record in own if record.outcome in WITHHELD), None)
    pairs, unsteady, disturbed = [], 0, 0
    for block in blocks:
        together = asked.members(block)
        if not together or Outcome.CANCELLED in block.outcomes:
            continue
        if Outcome.DISTURBED in block.outcomes:
            disturbed += 1
            continue
        outcomes = {record.outcome for record in together}
        members = [ready[record.trial_id] for record in together if record.trial_id in ready]
        if outcomes <= {Outcome.OK, Outcome.NOT_STEADY} and not (
            len(members) == len(together) and all(m.steady for m in members)
        ):
            unsteady += 1
        elif outcomes == {Outcome.OK}:
            pairs.append(_pair(block, members))
    pairs, notes = _comparable(pairs)
    unequal = [words for pair in pairs[:1] for words in undeclared_differences(*_ends(pair))]
    dropped = unsteady + disturbed
    obstacle = None
    if withheld is not None:
        invalid = withheld.outcome != Outcome.NOT_APPLIED
        reason = f"{_words(withheld.outcome)}: {withheld.reason}"
        obstacle = Obstacle(Word.INVALID if invalid else Word.NOT_RUN, reason, True)
    elif unequal:
        reason = f"not comparable: the arms differ in what no treatment declares: {'; '.join(unequal)}"
        obstacle = Obstacle(Word.INVALID, reason, True)
    elif dropped > max(FEWEST_DROPPED, DROPPED_SHARE * (dropped + len(pairs))):
        cause = "disturbed" if disturbed >= unsteady else "not steady"
        obstacle = Obstacle(Word.INVALID, f"{dropped} of {dropped + len(pairs)} blocks were {cause}", True)
    elif not pairs:
        obstacle = _nothing_measured(own, baseline, notes)
    failure = _failure({record.trial_id for record in own}, {record.trial_id for record in baseline}, blocks)
    return Contrast(place, asked.arm, asked.baseline, tuple(pairs), dropped, obstacle, notes, failure)


def _failure(own: Set[str], baseline: Set[str], blocks: Sequence[Block]) -> str:
    """What became of the blocks in which a trial of either side failed and was not tried again with success."""
    tried = [block for block in blocks if any(record.trial_id in own | baseline for record in block.trials.values())]
    for who, ids in (("", own), ("the baseline: ", baseline)):
        trials = [each for block in tried for each in block.trials.values() if each.trial_id in ids]
        failed = [each for each in trials if each.outcome in FAILURES]
        if failed:
            count = len({(each.session_id, each.block_index) for each in failed})
            return f"{who}{_words(failed[-1].outcome)} in {count} of {len(tried)} blocks: {failed[-1].reason}"
    return ""


def _pair(block: Block, members: Sequence[Process]) -> Pair:
    treated, baselines = members[0], tuple(members[1:])
    start, *starts = common_start(members)
    middle = sum(process.record.position or 0 for process in baselines) / len(baselines)
    position = treated.record.position or 0
    order = (position > middle) - (position < middle)
    return Pair(block.session_id, block.index, treated, start, block.baselines(baselines, tuple(starts)), order)


def _ends(pair: Pair) -> tuple[TrialRecord, TrialRecord]:
    return pair.treated.record, pair.baselines.processes[0].record


def _comparable(pairs: list[Pair]) -> tuple[list[Pair], tuple[str, ...]]:
    """Only blocks whose identities are known and agree, and of several versions of the code the one measured last."""

    def identity(pair: Pair) -> tuple[str, ...]:
        return (
            pair.treated.record.base_env_id,
            pair.treated.record.code_id,
            pair.baselines.processes[0].record.code_id,
        )

    def agrees(pair: Pair) -> bool:
        first, others = pair.treated.record, [process.record for process in pair.baselines.processes]
        facts = (first.base_env_id, first.hardware_id, first.machine_id)
        same = all((other.base_env_id, other.hardware_id, other.machine_id) == facts for other in others)
        one_code = all(other.code_id == others[0].code_id for other in others)
        return same and one_code and all(identity(pair)) and first.hardware_id != ""

    alike = [pair for pair in pairs if agrees(pair)]
    notes = []
    if len(alike) < len(pairs):
        notes.append(f"{len(pairs) - len(alike)} blocks left out: their environments differ or are unknown")
    latest = [pair for pair in alike if identity(pair) == identity(alike[-1])]
    if len(latest) < len(alike):
        notes.append(f"{len(alike) - len(latest)} blocks left out: measured with other code or another environment")
    return latest, tuple(notes)


def _nothing_measured(own: Sequence[TrialRecord], baseline: Sequence[TrialRecord], notes: Sequence[str]) -> Obstacle:
    """The reason, in words, why an arm has no complete block."""
    if notes:
        return Obstacle(Word.INVALID, "; ".join(notes), False)
    for who, records in (("", own), ("the baseline did not run: ", baseline)):
        failed = [
            record for record in records if record.outcome not in (Outcome.OK, Outcome.DISTURBED, Outcome.CANCELLED)
        ]
        if failed:
            last = max(failed, key=lambda record: (record.started_at, record.attempt))
            final = last.attempt >= RETRIES.get(last.outcome, 0) and last.outcome != Outcome.NOT_STEADY
            return Obstacle(Word.NOT_RUN, f"{who}{_words(last.outcome)}: {last.reason or 'no reason recorded'}", final)
    return Obstacle(Word.NOT_RUN, "no complete block was measured", False)


def _words(outcome: Outcome) -> str:
    return outcome.value.replace("_", " ")
