"""The block loop: prepare, then block after block until every arm is decided or the budget is spent.

Each finished trial is on disk before the next one starts. Running the same experiment again finds the complete blocks
and goes on after them.
"""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness import identity
from harness.arms import format_use, full_params
from harness.collect import SessionIds, asked, collect, to_json
from harness.judge import judge, numerics
from harness.judge.types import Judgement
from harness.launch import Executor
from harness.plan import (
    Frozen,
    Place,
    Plan,
    block_order,
    checked_arms,
    fewest_blocks,
    prepared_arms,
    trials_before,
    trials_in_round,
)
from harness.record import FAILURES, RETRIES, Outcome, TrialRecord, Window
from harness.registry import Registry
from harness.spec import Kind
from harness.status import Present, counts, superseded_by
from harness.trial_log import TrialLog
from harness.trials import Trials

if TYPE_CHECKING:
    from harness.machine import Machine
    from harness.store import Store

DISTURBED_BLOCKS_ALLOWED = 0.25
"""Blocks beyond `max_blocks` that may replace disturbed ones, as a share."""

BLOCK_MAY_OVERRUN = 1.1
"""A block begun in time goes on to the end while that is no later than this share of the budget."""


class Progress(Protocol):
    """Told what goes on; draws between trials only, never while one is measured."""

    def note(self, text: str) -> None: ...

    def start(self, label: str, arm: str, done: int, planned: int, seconds_left: float | None) -> None: ...

    def finish(self, record: TrialRecord) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a session goes about it; none of it is part of what is measured."""

    cache: Path
    data_source: Path | None = None
    budget_s: float | None = None
    blocks: int = 0
    """Leave an arm alone from so many blocks on, though it is undecided: others are to have their turn first."""
    trial_timeout_s: float = 1800.0
    on_bad_item: str = "fatal"
    new_session: bool = False


@dataclass
class Result:
    """How a session ended."""

    judgement: Judgement
    failures: int = 0
    stopped_by: str = ""
    """"budget", or empty when every arm was decided."""


@dataclass
class Session:
    """One unbroken stretch of blocks of one plan on one machine."""

    plan: Plan
    registry: Registry
    machine: Machine
    store: Store
    executor: Executor
    progress: Progress
    options: Options
    spec_id: str
    ids: SessionIds
    session_id: str = field(default_factory=identity.new_id)
    clock: Callable[[], float] = time.monotonic
    windows: dict[str, Any] = field(default_factory=dict)
    dropped: dict[Place, set[str]] = field(default_factory=dict)
    started: float = 0.0

    @functools.cached_property
    def trials(self) -> Trials:
        """What makes the trials of this session."""
        return Trials(
            plan=self.plan,
            registry=self.registry,
            machine=self.machine,
            base_env_id=self.ids.base_env_id,
            spec_id=self.spec_id,
            session_id=self.session_id,
            cache=self.options.cache,
            work=self.store.root / ".work",
            on_bad_item=self.options.on_bad_item,
        )

    @functools.cached_property
    def log(self) -> TrialLog:
        """The trials that count, earlier sessions' and this one's."""
        return TrialLog(self.trials.is_at)

    def run(self) -> Result:
        """Measure until every arm at every place is decided, the looks are used up, or the budget is spent."""
        self.started = self.clock()
        self._load_earlier()
        self._make_data()
        self._drop_failed()
        self._write_skips()
        places = [place for place in self.plan.places if self.plan.runs[place]]
        for place in places:
            self._prepare(place, prepared_arms(self.plan, place, self.registry))
            self._check_numerics(place, checked_arms(self.plan, place, self.registry))
        return self._ended(self._rounds(places))

    def check(self) -> Result:
        """Try the proof and the numerics of every arm, timing nothing; what the budget does not reach has no record."""
        self.started = self.clock()
        self._load_earlier()
        self._make_data()
        self._write_skips()
        for place in self.plan.places:
            checked = checked_arms(self.plan, place, self.registry)
            self._prepare(place, self.plan.runs[place][:1])
            self._check_numerics(place, checked[:1])
            for arm in self.plan.runs[place]:
                self._prepare(place, (arm,))
                self._check_numerics(place, (arm,) if arm in checked else ())
        return self._ended("")

    def _ended(self, stopped_by: str) -> Result:
        verdicts = self.judge(last_look=True)
        failures = sum(record.outcome in FAILURES for record in self.log.last_attempts() if not record.is_skip)
        return Result(verdicts, failures, stopped_by)

    # -------------------------------------------------------------------------------------------- before the blocks

    def _load_earlier(self) -> None:
        """The trials of the same spec, code, environment and hardware class that are in the store already."""
        codes = {
            (place.workload, arm): self.trials.code_id(place, arm)
            for place in self.plan.places
            for arm in self.plan.arms
        }
        superseded: list[TrialRecord] = []
        for record in self.store.trials(self.spec_id):
            if counts(record, codes.get((record.workload, record.arm), ""), self.ids):
                self.log.records.append(record)
            elif record.duration_ns:
                superseded.append(record)
        timed = [record.trial_id for record in self.log.records if record.steps_rows]
        self.windows.update(self.store.windows(timed))
        if self.log.records:
            self.progress.note(
                f"{len(self.log.records)} trials of this experiment are in the store already; going on after them"
            )
        if superseded:
            self.progress.note(
                f"{len(superseded)} earlier trials are of other work and do not count here: {self._why(superseded[-1])}"
            )

    def _why(self, superseded: TrialRecord) -> str:
        """What differs from the present work, in words."""
        present = Present(
            base_env_id=self.ids.base_env_id,
            hardware_id=self.ids.hardware_id,
            facts=self.store.environment(self.ids.environment_id),
        )
        return "; ".join(superseded_by(superseded, present, self.store.environment))

    def _drop_failed(self) -> None:
        """Leave out arms that an earlier run tried as often as their outcome allows; only a new session tries again."""
        if self.options.new_session:
            return
        for place in self.plan.places:
            for arm in self.plan.treated(place):
                last = self.log.last_timed(place, arm)
                if last is not None and ends_its_arm(last):
                    self._drop(place, arm)
                    self.progress.note(
                        f"{place.label}: {arm} is left out, since it failed before ({last.outcome}: {last.reason}); "
                        "--new-session tries it again"
                    )

    def _make_data(self) -> None:
        for place in self.plan.places:
            if self.plan.runs[place]:
                self._make_data_of(place)

    def _make_data_of(self, place: Place) -> None:
        for warning in self.trials.make_data(place, self.options.data_source):
            self.progress.note(f"{place.label}: {warning}")

    def _write_skips(self) -> None:
        for skip in self.plan.skips:
            if not self.log.has_skip(skip.place, skip.arm):
                self._write_row(skip.place, skip.arm, Outcome.NOT_APPLICABLE, skip.reason)

    def _write_row(self, place: Place, arm: str, outcome: Outcome, reason: str) -> None:
        trial = self.trials.make(place, arm, Kind.TIMING, None, None)
        record = asked(trial, self.ids, self.trials.code_id(place, arm))
        self._declare(record)
        record.outcome, record.reason = outcome, reason
        self._keep(self.store.write_trial(record, [], []), [])
        self.progress.note(f"{place.label}: {arm or 'baseline'} is skipped: {reason}")

    def _prepare(self, place: Place, arms: Iterable[str]) -> None:
        """One short untimed trial of each of the arms."""
        for arm in arms:
            if arm in self.dropped.get(place, set()) or self._budget_is_spent(place, [arm]):
                continue
            record = self._earlier_preparation(place, arm) or self._attempt(place, arm, Kind.PREPARE, None, None)
            if record.outcome is not Outcome.OK:
                self._drop(place, arm)
            elif arm == self.plan.baseline:
                self._drop_already_so(place, record)
            if not self._active(place):
                return

    def _compiles(self, arm: str) -> bool:
        return any("compile" in treatment.hooks for treatment, _ in self.trials.treatments(arm))

    def _earlier_preparation(self, place: Place, arm: str) -> TrialRecord | None:
        record = self.log.preparation(place, arm)
        cache = self.trials.compile_cache(place, arm)
        kept = not self._compiles(arm) or (cache.is_dir() and any(cache.iterdir()))
        return record if record is not None and record.outcome is Outcome.OK and kept else None

    def _drop_already_so(self, place: Place, baseline: TrialRecord) -> None:
        """An arm one of whose treatments the baseline shows as well compares less than it says."""
        accepted = json.loads(baseline.already_so_json)
        for arm in self.plan.treated(place):
            for use in self.trials.arm(arm).uses:
                if format_use(use) in accepted:
                    self._drop(place, arm)
                    if not self.log.has_skip(place, arm):
                        reason = (
                            f"{format_use(use)} is already so in the baseline ({json.dumps(accepted[format_use(use)])})"
                        )
                        self._write_row(place, arm, Outcome.NOT_APPLICABLE, reason)
                    break

    def _check_numerics(self, place: Place, arms: Sequence[str]) -> None:
        """One numerics trial of each of the arms; one that computes something else than the plain model is left out."""
        at = self._numerics_place(place) if arms else place
        if at not in self.trials.data:
            self._make_data_of(at)
        for arm in arms:
            if arm in self.dropped.get(place, set()) or self._budget_is_spent(place, [arm]):
                continue
            record = self.log.numerics(at, arm) or self._attempt(at, arm, Kind.NUMERICS, None, None)
            if record.outcome is Outcome.WRONG_NUMERICS:
                self._drop(place, arm)
                if not self.log.has_skip(place, arm):
                    self._write_row(place, arm, record.outcome, record.reason)

    def _numerics_place(self, place: Place) -> Place:
        """Where numerics are checked: at `tiny`, since the code counts and not its speed, and without dropout."""
        workload = self.registry.workload(place.workload)
        preset = "tiny" if "tiny" in workload.presets else place.preset
        params = {**workload.presets[preset], **({"dropout": 0.0} if "dropout" in place.params else {})}
        return Place(place.workload, Frozen(params), preset, place.mode, place.input, Frozen())

    def _mark_if_wrong(self, record: TrialRecord, place: Place) -> None:
        """Mark a numerics trial whose arm computes something else than the plain model."""
        plain = self.log.numerics(place, "")
        if record.numerics_json and record.arm and plain is not None:
            wrong = numerics.check_records(record, plain).wrong
            if wrong:
                record.outcome, record.reason = Outcome.WRONG_NUMERICS, wrong

    def _drop(self, place: Place, arm: str) -> None:
        """Leave an arm out from here on; without its baseline a place has nothing to compare."""
        dropped = self.dropped.setdefault(place, set())
        dropped |= set(self.plan.runs[place]) if arm == self.plan.baseline else {arm}

    def _active(self, place: Place) -> list[str]:
        """The arms that are still measured; where nothing but the baseline is compared, the baseline."""
        compared = (self.plan.baseline,) if self.plan.experiment.is_aa else self.plan.treated(place)
        return [arm for arm in compared if arm not in self.dropped.get(place, set())]

    # -------------------------------------------------------------------------------------------- blocks

    def _rounds(self, places: Sequence[Place]) -> str:
        """One block of each place in turn, so that a budget is shared evenly. Returns what stopped it."""
        analysis = self.plan.experiment.analysis
        last = int(analysis.max_blocks * (1 + DISTURBED_BLOCKS_ALLOWED))
        next_block = dict.fromkeys(places, 0)
        if self.options.new_session:
            next_block = {place: self.log.next_block(place) for place in places}
        first_block = dict(next_block)
        open_places = list(places)
        while open_places:
            for place in list(open_places):
                undecided = self._undecided(place) if next_block[place] else self._active(place)
                if not undecided or (next_block[place] - first_block[place] >= last and not analysis.open_ended):
                    open_places.remove(place)
                    continue
                order = block_order(self.plan, place, next_block[place], undecided)
                if not self.log.is_complete(place, next_block[place], len(order)):
                    if self._budget_is_spent(place, order) or not self._block(place, next_block[place], order):
                        return "budget"
                    self.trials.check_code()
                next_block[place] += 1
        return ""

    def _undecided(self, place: Place) -> list[str]:
        own = self.session_id if self.options.new_session else ""
        enough = self.options.blocks or math.inf
        here = [c for c in self.judge(own).comparisons if c.primary and self._is_place(c, place)]
        if self.plan.experiment.is_aa:
            return [] if all(c.final or c.blocks >= enough for c in here) else self._active(place)
        open_arms = {c.arm for c in here if not (c.final or c.blocks >= enough)}
        return [arm for arm in self._active(place) if arm in open_arms]

    def _is_place(self, comparison: Any, place: Place) -> bool:
        return comparison.workload == place.workload and dict(comparison.axes) == dict(place.axes)

    def _budget_is_spent(self, place: Place, arms: Iterable[str], allowance: float = 1.0) -> bool:
        """Whether trials of these arms, as long as the last ones of their kind, would end after the budget."""
        if self.options.budget_s is None:
            return False
        needed_s = sum(self.log.expected_s(place, arm) for arm in arms)
        return self.clock() - self.started + needed_s > self.options.budget_s * allowance

    def _block(self, place: Place, block: int, order: Sequence[str]) -> bool:
        """Measure one block; False where the budget ended it, since its trials took longer than they were known to."""
        for position, arm in enumerate(order):
            if arm in self.dropped.get(place, set()):
                continue
            if self._budget_is_spent(place, order[position:], BLOCK_MAY_OVERRUN):
                return False
            record = self._attempt(place, arm, Kind.TIMING, block, position)
            if ends_its_arm(record):
                self._drop(place, arm)
            if not self._active(place):
                break
        return True

    def _attempt(self, place: Place, arm: str, kind: Kind, block: int | None, position: int | None) -> TrialRecord:
        """Run one trial, again where its outcome allows it; every attempt is stored."""
        attempt = 0
        while True:
            trial = self.trials.make(place, arm, kind, block, position)
            self._announce(place, arm, kind)
            launched = self.executor.run(trial, self.trials.process_change(arm), self.options.trial_timeout_s)
            record, windows = collect(trial, launched, self.ids, self.trials.code_id(place, arm), attempt)
            self._declare(record)
            self._mark_if_disturbed(record)
            self._mark_if_wrong(record, place)
            record = self.store.write_trial(record, windows, launched.samples)
            self._keep(record, windows)
            self.progress.finish(record)
            if attempt >= RETRIES.get(record.outcome, 0) or self._budget_is_spent(place, [arm]):
                return record
            attempt += 1

    def _declare(self, record: TrialRecord) -> None:
        """Write down what the arm's treatments alter on purpose, and what they promise of the results."""
        traits = self.registry.workload(record.workload).traits
        pairs = self.trials.treatments(record.arm)
        record.declared_changes_json = to_json(sorted({change for each, _ in pairs for change in each.changes}))
        record.declared_numerics = numerics.weakest(
            [each.promise(traits, full_params(use, each)) for each, use in pairs]
        )

    def _mark_if_disturbed(self, record: TrialRecord) -> None:
        """Mark a timed trial that something else on the machine got in the way of. Never looks at its times."""
        analysis = self.plan.experiment.analysis
        for what, share, limit, unit in (
            ("the hypervisor took", record.steal_share, analysis.max_steal_share, "of the CPU time"),
            ("other processes used", record.foreign_cpu_share, analysis.max_foreign_cpu_share, "cores"),
        ):
            if record.outcome is Outcome.OK and record.kind == Kind.TIMING and share is not None and share > limit:
                record.outcome = Outcome.DISTURBED
                record.reason = f"{what} {share:.2f} {unit} while it was timed; the limit is {limit:g}"

    def _announce(self, place: Place, arm: str, kind: Kind) -> None:
        typical = self.log.typical_s()
        trials = trials_before(self.plan, self.registry) + fewest_blocks(self.plan) * trials_in_round(self.plan)
        done = self.log.measured()
        left = typical * max(0, trials - done) if typical is not None else None
        what = place.label if kind is Kind.TIMING else f"{place.label}, {kind}"
        self.progress.start(what, arm or "baseline", done, max(trials, done + 1), left)

    def _keep(self, record: TrialRecord, windows: Sequence[Window]) -> None:
        self.log.records.append(record)
        if windows:
            self.windows.update(self.store.windows([record.trial_id]))

    def judge(self, only_session: str = "", last_look: bool = False) -> Judgement:
        """The verdicts so far, from all trials of the experiment or from those of one session."""
        records = [record for record in self.log.records if only_session in ("", record.session_id)]
        return judge(self.plan.experiment, self.spec_id, records, self.windows, last_look=last_look)


def ends_its_arm(record: TrialRecord) -> bool:
    """Whether an arm is measured no more after this trial: it failed, as often as it may, or does not apply here."""
    failed = record.outcome in FAILURES and record.attempt >= RETRIES.get(record.outcome, 0)
    return failed or record.outcome is Outcome.NOT_APPLICABLE


def session_ids(plan: Plan, machine: Machine, environment_id: str) -> SessionIds:
    """The ids that every row of a session carries."""
    return SessionIds(
        base_env_id=machine.base_env_id,
        hardware_id=machine.hardware_id,
        machine_id=machine.machine_id,
        environment_id=environment_id,
        device=machine.gpus[0].name if plan.device == "cuda" else "cpu",
        cores=machine.cores,
    )
