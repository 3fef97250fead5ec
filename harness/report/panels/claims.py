"""The claims ledger: what was said, what was measured here, and what follows by the ledger's rules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from harness.judge.claims import ClaimVerdict, ClaimWord, JudgedClaim
from harness.metrics import METRICS
from harness.report.format import SPACE, arm_name, change, count, doing, level, percent, words
from harness.report.panels.counts import Chip, Counts
from harness.report.view import Cell, Column, Group, Panel, Table, table

LOOKS: dict[ClaimWord, tuple[str, str]] = {
    ClaimWord.HELD: ("✓", "better"),
    ClaimWord.EXCEEDED: ("▲", "better"),
    ClaimWord.MISSED: ("▽", "worse"),
    ClaimWord.CONTRADICTED: ("▼", "worse"),
    ClaimWord.INCONCLUSIVE: ("?", "open"),
    ClaimWord.NO_VERDICT: ("·", "same"),
    ClaimWord.NOT_MEASURED: ("○", "absent"),
    ClaimWord.UNTESTABLE: ("–", "absent"),
}
"""The glyph and the tone of every word."""

RULES = (
    ("held", "the interval overlaps the claimed range and excludes no effect"),
    ("held, for a direction", "the interval lies beyond the region of practical equivalence, on the side claimed"),
    ("exceeded", "the interval lies wholly beyond the claimed range"),
    ("missed", "the interval lies wholly short of the claimed range, or the effect is equivalent to none"),
    ("contradicted", "the interval lies wholly on the other side of no effect"),
    ("inconclusive", "none of these, or no number"),
    ("untestable here", "this machine or this version of the harness cannot test it; the reason says why"),
    ("not measured", "it can be tested here, and no complete block of it is stored yet"),
    ("no verdict", "a statement about the baseline or about a tool, not about a change"),
)  # fmt: skip


def panels(rows: Sequence[JudgedClaim], not_run: Sequence[tuple[str, str]]) -> list[Panel]:
    """The sections of the ledger's page. `not_run` names experiments that were left out, with the reason."""
    found = [
        Panel("counts", "How the claims fared", "counts.html", _counts(rows)),
        Panel("claims", "What was said, and what was measured here", "plain.html", (_ledger(rows),)),
    ]
    if not_run:
        left_out = table("Experiments that were not run, and why", "Experiment|Reason", not_run)
        found.append(Panel("left-out", "Not run", "plain.html", (left_out,)))
    rules = table("What the verdicts on claims mean", "Verdict|When", RULES, "wordy")
    return [*found, Panel("rules", "The rules", "plain.html", (rules,))]


def _counts(rows: Sequence[JudgedClaim]) -> Counts:
    number = Counter(row.verdict.word for row in rows)
    chips = tuple(Chip(*LOOKS[word], f"{number[word]} {word}") for word in LOOKS if number[word])
    tested = sum(row.status == "tested" for row in rows)
    sentence = f"{count(len(rows), 'claim')}; blocks of {tested} of them are in the results."
    return Counts(chips, (sentence,), ())


def _ledger(rows: Sequence[JudgedClaim]) -> Table:
    columns = ("Claim", "What was said", "Compared here", "Claimed", "Measured", "Verdict", "The article's own snippet")
    articles = dict.fromkeys(row.claim.article for row in rows)
    groups = tuple(
        Group(tuple(_row(row) for row in rows if row.claim.article == article), f"Article {article}")
        for article in articles
    )
    caption = "Every claim with its claimed and its measured change, after / before − 1"
    return Table(caption, tuple(Column(name) for name in columns), groups, "wordy")


def _row(row: JudgedClaim) -> tuple[Cell, ...]:
    glyph, tone = LOOKS[row.verdict.word]
    hardware = f" Hardware: {row.claim.hardware}." if row.claim.hardware else ""
    return (
        Cell(row.claim.id),
        Cell(row.claim.statement, f"{row.claim.source}.{hardware}"),
        _compared(row),
        Cell(claimed_text(row)),
        Cell(measured_text(row.verdict), _basis(row.verdict)),
        Cell(f"{glyph}{SPACE}{row.verdict.word}", row.verdict.reason, tone),
        Cell(row.claim.as_written or "runs as written, as far as it was tried"),
    )


def _compared(row: JudgedClaim) -> Cell:
    if not row.workload:
        return Cell("nothing")
    arms = f"{arm_name(row.arm)} against {arm_name(row.baseline)}"
    return Cell(f"{row.workload}, {doing(row.claim.mode)}", f"{arms}{'; ' + row.note if row.note else ''}")


def claimed_text(row: JudgedClaim) -> str:
    """What is claimed, in a few words: "throughput +20 % to +30 %", "step time lower"."""
    metric = words(row.verdict.metric or row.claim.metric)
    if row.claim.value is not None:
        return f"{metric} {percent(row.claim.value)}"
    if row.verdict.claimed is None:
        return f"{metric} {row.claim.direction}".strip() or "no number"
    low, high = row.verdict.claimed
    if math.isinf(high):
        return f"{metric} {change(1 + low)} or more"
    if low == high:
        return f"{metric} at most {change(1 + low)}"
    return f"{metric} {change(1 + low)} to {change(1 + high)}"


def measured_text(verdict: ClaimVerdict) -> str:
    """The measured change with its interval."""
    if verdict.change is None:
        return "no number"
    if verdict.low is None or verdict.high is None:
        return change(1 + verdict.change)
    return f"{change(1 + verdict.change)} ({change(1 + verdict.low)} to {change(1 + verdict.high)})"


def _basis(verdict: ClaimVerdict) -> str:
    """How surely, from how many blocks, in which family."""
    if verdict.low is None:
        return count(verdict.blocks, "block") if verdict.blocks else ""
    unit = METRICS[verdict.metric].unit
    return f"{level(verdict.level)} interval, {count(verdict.blocks, 'block')}, of {words(verdict.metric)} in {unit}"
