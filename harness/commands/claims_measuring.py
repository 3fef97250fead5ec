"""How `harness claims` spends its budget: experiment after experiment, look after look, the cheapest claims first."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from harness.claims import ClaimsPlan, Turn, judge_claims, next_turn
from harness.commands.common import describe_machine, open_store
from harness.commands.exit_codes import Exit
from harness.commands.measuring import Measuring, measure
from harness.commands.plan_command import ASSUMED_TRIAL_SECONDS
from harness.judge.claims import ClaimWord, JudgedClaim
from harness.judge.stopping import LOOKS
from harness.plan import Plan, block_order, make_plan
from harness.spec import Experiment

if TYPE_CHECKING:
    from harness.record import TrialRecord
    from harness.registry import Registry

OPEN = (ClaimWord.NOT_MEASURED, ClaimWord.INCONCLUSIVE)
"""Verdicts that more blocks may change."""


@dataclass
class Campaign:
    """The experiments of a plan under one budget, and what is known of each so far."""

    plan: ClaimsPlan
    registry: Registry
    how: Measuring
    budget: float
    rows: dict[str, list[JudgedClaim]] = field(default_factory=dict)
    """Verdicts so far, by experiment."""
    finished: set[str] = field(default_factory=set)
    """Experiments that would measure nothing more."""
    measured: dict[str, str] = field(default_factory=dict)
    """Experiments measured in this run, with their ids in the store."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """How long trials of a workload took, at this preset."""
    failures: int = 0
    started: float = field(default_factory=time.monotonic)

    def run(self, judged: Sequence[JudgedClaim]) -> list[Turn]:
        """Measure while the budget lasts; returns the turns that are left. `judged` are the verdicts so far."""
        for experiment in self.plan.experiments:
            self.rows[experiment.name] = [row for row in judged if row.experiment == experiment.name]
        self._learn(open_store(self.how.results).trials())
        while (turn := next_turn(self._turns(), self._left())) is not None:
            self._take(turn)
        return self._turns()

    @property
    def exit_code(self) -> int:
        return Exit.TRIAL_FAILED if self.failures else Exit.FINE

    def _left(self) -> float:
        return self.budget - (time.monotonic() - self.started)

    def _learn(self, trials: Sequence[TrialRecord]) -> None:
        for record in trials:
            if record.duration_ns:
                self.seconds[f"{record.workload} {record.preset}"].append(record.duration_ns / 1e9)

    # ---------------------------------------------------------------------------------------- what comes next

    def _turns(self) -> list[Turn]:
        made = (self._turn(each) for each in self.plan.experiments if each.name not in self.finished)
        return [turn for turn in made if turn is not None]

    def _turn(self, experiment: Experiment) -> Turn | None:
        """The next look of an experiment that has an open claim, or nothing but what is shown beside claims."""
        rows = self.rows[experiment.name]
        waiting = [row for row in rows if self._is_open(row)]
        so_far = min((row.verdict.blocks for row in waiting), default=0)
        most = max(experiment.analysis.max_blocks, experiment.analysis.min_blocks)
        blocks = next((look for look in (*LOOKS, most) if so_far < look <= most), 0)
        if not blocks or (rows and not waiting) or (not rows and experiment.name in self.measured):
            return None
        return Turn(
            experiment=experiment.name,
            blocks=blocks,
            seconds=self._estimate(make_plan(experiment, self.registry, describe_machine()), so_far, blocks),
            claims=len(waiting),
            analogue=not any(self._can_be_judged(row) for row in waiting),
        )

    def _can_be_judged(self, row: JudgedClaim) -> bool:
        return row.claim.scope != "cuda" or self.plan.device == "cuda"

    def _is_open(self, row: JudgedClaim) -> bool:
        """An analogue is settled once it has been looked at; a claim when more blocks would not change its verdict."""
        if not self._can_be_judged(row):
            return row.verdict.blocks < LOOKS[0]
        return row.verdict.word in OPEN

    def _estimate(self, plan: Plan, blocks_before: int, blocks: int) -> float:
        """Seconds: what is prepared and checked first, then the blocks."""
        place = next(place for place in plan.places if plan.runs[place])
        known = self.seconds[f"{place.workload} {place.preset}"]
        each = sum(known) / len(known) if known else ASSUMED_TRIAL_SECONDS[place.preset]
        small = self.seconds[f"{place.workload} tiny"] or [min(each, ASSUMED_TRIAL_SECONDS["tiny"])]
        first = 0.0 if blocks_before else each + (1 + len(plan.runs[place])) * sum(small) / len(small)
        return first + (blocks - blocks_before) * len(block_order(plan, place, 0, plan.treated(place))) * each

    # ---------------------------------------------------------------------------------------- measuring

    def _take(self, turn: Turn) -> None:
        (experiment,) = (each for each in self.plan.experiments if each.name == turn.experiment)
        open_claims = sum(self._is_open(row) for rows in self.rows.values() for row in rows)
        click.echo(
            f"\n{experiment.name} to {turn.blocks} blocks, about {turn.seconds / 60:.1f} minutes; "
            f"{self._left() / 60:.1f} of {self.budget / 60:.0f} minutes left, {open_claims} claims open",
            err=True,
        )
        analysis = dataclasses.replace(experiment.analysis, budget=f"{max(1.0, self._left()):.0f}s")
        timed = dataclasses.replace(experiment, analysis=analysis)
        blocks = self._blocks(experiment)
        store = open_store(self.how.results)
        before = {record.trial_id for record in store.trials()}
        result, store, spec_id = measure(timed, self.registry, self.how, turn.blocks)
        self._learn([record for record in store.trials(spec_id) if record.trial_id not in before])
        self.failures += result.failures
        self.measured[experiment.name] = spec_id
        part = self.plan.part_of(experiment)
        self.rows[experiment.name] = judge_claims(part, {spec_id: experiment}, lambda _: result.judgement)
        if self._blocks(experiment) == blocks:  # its arms fail, or it has nothing more to decide by itself
            self.finished.add(experiment.name)
        for row in self.rows[experiment.name]:
            click.echo(f"{row.claim.id}: {row.verdict.word}: {row.verdict.reason}", err=True)

    def _blocks(self, experiment: Experiment) -> int:
        return sum(row.verdict.blocks for row in self.rows[experiment.name])


def left_over(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    """What the budget did not reach, in words: experiment, and what it would have taken."""
    return [
        (turn.experiment, f"budget: {turn.blocks} blocks need about {turn.seconds / 60:.1f} minutes")
        for turn in sorted(turns, key=lambda turn: turn.seconds)
    ]
