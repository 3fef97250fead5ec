"""What is planned, done, failed and superseded: derived from the stored rows each time, never stored itself.

A trial counts for the present work if its code, environment and hardware class are the present ones; what differs
supersedes it, and is named ("torch 2.14.1 -> 2.15.0"). Superseded trials stay where they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from harness.identity import FactChange, compare_facts
from harness.record import FAILURES, Fact, Outcome, TrialRecord

REASONS_SHOWN = 3


State = Literal["planned", "done", "failed", "skipped", "discarded", "superseded", "simulated"]


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """One arm at one place of a plan, with the code it would run now."""

    workload: str
    params_json: str
    """As in `TrialRecord`."""
    arm: str
    code_id: str


@dataclass(frozen=True, kw_only=True)
class Present:
    """What a trial would be measured under now."""

    base_env_id: str
    hardware_id: str
    facts: Sequence[Fact]
    """The present environment, `identity.code_facts` included."""


@dataclass(frozen=True, kw_only=True)
class CellStatus:
    """How far one planned cell is."""

    cell: PlannedCell
    state: State
    """planned: nothing measured yet; done: at least one timed trial; discarded: only disturbed or unsteady ones;
    superseded: only trials of other work; simulated: only made-up ones."""
    timed: int
    """Timed trials that count for the present work."""
    blocks: int
    """Different blocks among them."""
    failed: int
    discarded: int
    """Trials that something disturbed, or that never became steady."""
    superseded: int
    simulated: int
    reasons: tuple[str, ...]
    """Why it failed, was skipped or discarded, or what superseded its earlier trials."""


def derive_status(
    planned: Iterable[PlannedCell],
    trials: Sequence[TrialRecord],
    present: Present,
    environment: Callable[[str], Sequence[Fact]],
) -> list[CellStatus]:
    """The status of every planned cell, from the trials of its spec; `environment` reads the facts of a stored one."""
    by_arm: dict[tuple[str, str], list[TrialRecord]] = {}
    for record in trials:
        by_arm.setdefault((record.workload, record.arm), []).append(record)
    return [_cell_status(cell, by_arm.get((cell.workload, cell.arm), []), present, environment) for cell in planned]


def no_longer_planned(planned: Iterable[PlannedCell], trials: Iterable[TrialRecord]) -> int:
    """How many trials were timed with parameters, or of arms and workloads, that the plan no longer has."""
    known = {(cell.workload, cell.params_json, cell.arm) for cell in planned}
    return sum(
        (record.workload, record.params_json, record.arm) not in known
        for record in trials
        if record.block_index is not None and not record.is_simulated
    )


def _cell_status(
    cell: PlannedCell,
    records: Sequence[TrialRecord],
    present: Present,
    environment: Callable[[str], Sequence[Fact]],
) -> CellStatus:
    simulated = [record for record in records if record.is_simulated and _simulates(record, cell)]
    measured = [record for record in records if not record.is_simulated and record.params_json == cell.params_json]
    current = [record for record in measured if counts(record, cell.code_id, present)]
    old = [record for record in measured if not counts(record, cell.code_id, present)]
    timed = [record for record in current if record.outcome is Outcome.OK and record.block_index is not None]
    failed = [record for record in current if record.outcome in FAILURES]
    discarded = [record for record in current if record.outcome in (Outcome.DISTURBED, Outcome.NOT_STEADY)]
    skipped = [record for record in current if record.outcome is Outcome.NOT_APPLICABLE]
    state: State
    if failed and (not timed or failed[-1].trial_id > timed[-1].trial_id):
        state, reasons = "failed", [failed[-1].reason]
    elif timed:
        state, reasons = "done", []
    elif skipped:
        state, reasons = "skipped", [skipped[-1].reason]
    elif discarded:
        state, reasons = "discarded", [discarded[-1].reason]
    elif old:
        state, reasons = "superseded", superseded_by(old[-1], present, environment)
    elif simulated:
        state, reasons = "simulated", ["no machine was measured"]
    else:
        state, reasons = "planned", []
    return CellStatus(
        cell=cell,
        state=state,
        timed=len(timed),
        blocks=len({(record.session_id, record.block_index) for record in timed}),
        failed=len(failed),
        discarded=len(discarded),
        superseded=len(old),
        simulated=len(simulated),
        reasons=tuple(reasons),
    )


def _simulates(record: TrialRecord, cell: PlannedCell) -> bool:
    """Whether a simulated trial stands for a cell: it knows the parameters that the experiment sets, and no others."""
    said, known = json.loads(record.params_json), json.loads(cell.params_json)
    return all(key in known and known[key] == value for key, value in said.items())


class Work(Protocol):
    """What a trial is measured under: `Present`, or the ids of a session."""

    @property
    def base_env_id(self) -> str: ...

    @property
    def hardware_id(self) -> str: ...


def counts(record: TrialRecord, code_id: str, present: Work) -> bool:
    """Whether a stored trial is the present work: the rule by which a run goes on."""
    return (record.code_id, record.base_env_id, record.hardware_id) == (
        code_id,
        present.base_env_id,
        present.hardware_id,
    )


def superseded_by(record: TrialRecord, present: Present, environment: Callable[[str], Sequence[Fact]]) -> list[str]:
    """What has changed since a trial was measured, in words; the first few changes, and how many more there are."""
    changes = compare_facts(environment(record.environment_id), present.facts)
    decisive = [change for change in changes if change.kind != "context" or change.path.startswith("code.")]
    words = [_in_words(change) for change in decisive] or ["code changed that the stored facts do not name"]
    more = len(words) - REASONS_SHOWN
    return words[:REASONS_SHOWN] + ([f"and {more} more"] if more > 0 else [])


def _in_words(change: FactChange) -> str:
    if not change.path.startswith("code."):
        return str(change)
    module = change.path.removeprefix("code.")
    if "not recorded" in (change.before, change.after):
        return f"{module} is {'new' if change.before == 'not recorded' else 'gone'}"
    return f"{module} changed"
