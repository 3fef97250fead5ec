"""How many verdicts of each kind, how many blocks were discarded and how many trials failed, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.judge.types import Word
from harness.record import Outcome, TrialRecord
from harness.report.data import ReportData
from harness.report.format import GLYPHS, TONES, arm_name, count, look, outcome_text
from harness.report.view import Cell, Panel, Table, table

LISTED = 60
"""Up to so many failed trials are listed."""


@dataclass(frozen=True)
class Chip:
    """A verdict's count."""

    glyph: str
    tone: str
    text: str


@dataclass(frozen=True)
class Counts:
    """What the section shows."""

    chips: tuple[Chip, ...]
    sentences: tuple[str, ...]
    tables: tuple[Table, ...]


def panel(data: ReportData) -> Panel:
    """The counts and, where there are any, the trials without a number."""
    return Panel(
        "counts", "Verdicts and failures", "counts.html", Counts(_chips(data), _sentences(data), _tables(data))
    )


def _chips(data: ReportData) -> tuple[Chip, ...]:
    found = Counter(row.comparison.verdict for row in data.rows)
    tones = {row.comparison.verdict: look(row.comparison).tone for row in data.rows}
    return tuple(
        Chip(GLYPHS[verdict], TONES.get(verdict, tones[verdict]), f"{found[verdict]} {verdict}")
        for verdict in Word
        if found[verdict]
    )


def _sentences(data: ReportData) -> tuple[str, ...]:
    dropped = data.judgement.dropped_blocks
    retried = sum(1 for each in data.trials if each.attempt > 0)
    exploratory = sum(1 for each in data.judgement.comparisons if not each.primary)
    family = f"{count(len(data.rows), 'comparison')} in the primary family, declared before data"
    sentences = [
        f"{family}; {count(exploratory, 'comparison')} of other metrics, exploratory.",
        f"{count(dropped, 'block')} discarded, always with all arms in it." if dropped else "No block was discarded.",
    ]
    outcomes = data.judgement.outcome_counts or Counter(str(each.outcome) for each in data.trials)
    by_outcome = [f"{number} {outcome_text(name)}" for name, number in sorted(outcomes.items(), key=_often) if number]
    sentences.append(f"Trials and skips by outcome: {', '.join(by_outcome) or 'none'}.")
    if not data.failed_trials:
        sentences.append("No trial failed and none was skipped.")
    if retried:
        sentences.append(f"{count(retried, 'trial')} run again after a crash or a disturbance.")
    return tuple(sentences)


def _often(entry: tuple[str, int]) -> tuple[int, str]:
    """Sorts counts, the greatest first."""
    return -entry[1], entry[0]


def _tables(data: ReportData) -> tuple[Table, ...]:
    if not data.failed_trials:
        return ()
    shown = data.failed_trials[:LISTED]
    rest = len(data.failed_trials) - len(shown)
    note = f" (the first {LISTED}; {rest} more are in the Parquet files)" if rest else ""
    return (
        table(
            f"Trials and skips without a number{note}",
            "treatment | workload | in block | outcome | why",
            [_failure(each) for each in shown],
            style="wordy",
        ),
    )


def _failure(trial: TrialRecord) -> tuple[str | Cell, ...]:
    """One trial without a number; the end of its error output stands under the reason."""
    tone = "absent" if trial.outcome in (Outcome.NOT_APPLICABLE, Outcome.CANCELLED, Outcome.DISTURBED) else "error"
    tail = "\n".join(trial.stderr_tail.strip().splitlines()[-6:])
    return (
        arm_name(trial.arm),
        trial.workload,
        _when(trial),
        Cell(outcome_text(trial.outcome), style=tone),
        Cell(trial.reason or "no reason is recorded", tail),
    )


def _when(trial: TrialRecord) -> str:
    """The block of a trial; what it was for, where it came before the first block."""
    if trial.block_index is not None:
        return str(trial.block_index + 1)
    return "left out" if trial.is_skip else f"none: {trial.kind}"
