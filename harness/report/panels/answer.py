"""The answer in one sentence, with its number, interval, hardware and blocks; and the main facts around it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judge.types import Comparison, Word
from harness.record import TrialRecord
from harness.report.data import ReportData, Row
from harness.report.format import GLYPHS, SPACE, arm_name, count, doing, interval, level, look, percent, speedup, words
from harness.report.view import Panel

LEAD_ORDER = (
    Word.FASTER,
    Word.LOWER,
    Word.SLOWER,
    Word.HIGHER,
    Word.EQUIVALENT,
    Word.INCONCLUSIVE,
    Word.INVALID,
    Word.NOT_RUN,
)
"""Which verdict leads: the first of these that any comparison has."""

LISTED = 6
"""Up to so many comparisons are listed under the answer; more are left to the table."""


@dataclass(frozen=True)
class Piece:
    """A part of the answer's sentence; the number is set strong."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Finding:
    """One comparison in a line."""

    glyph: str
    tone: str
    name: str
    number: str
    words: str


@dataclass(frozen=True)
class Answer:
    """What the summary card shows."""

    tone: str
    sentence: tuple[Piece, ...]
    remark: str
    findings: tuple[Finding, ...]
    facts: tuple[tuple[str, str], ...]


def panel(data: ReportData) -> Panel:
    """The summary card."""
    if not data.rows:
        empty = Answer(
            "absent", (Piece("Nothing was compared: the results hold no comparison."),), "", (), _facts(data)
        )
        return Panel("answer", "Answer", "answer.html", empty)
    if data.judgement.experiment.is_aa and data.judgement.calibrations:
        return Panel("answer", "Answer", "answer.html", _of_identical_runs(data))
    lead = lead_row(data.rows)
    listed = data.rows if 1 < len(data.rows) <= LISTED else ()
    answer = Answer(
        tone=look(lead.comparison).tone,
        sentence=_sentence(lead, hardware(data)),
        remark=_remark(data.rows, lead),
        findings=tuple(_finding(row, len(data.places) > 1) for row in listed),
        facts=_facts(data),
    )
    return Panel("answer", "Answer", "answer.html", answer)


def _of_identical_runs(data: ReportData) -> Answer:
    """What an A/A says: how many identical pairs were told apart, and how small a difference would have been seen."""
    made = data.judgement.calibrations
    pairs, claims = (sum(getattr(each, name) for each in made) for name in ("comparisons", "claims"))
    outside = sum(each.false_positives for each in made)
    floors = ", ".join(f"{percent(each.noise_floor)} of a step in {each.workload}" for each in made)
    sentence = (
        Piece(f"{claims} of {pairs}", strong=True),
        Piece(f" pairs of identical runs are judged different on {hardware(data)}. The noise of a block is {floors}."),
    )
    remark = (
        f"{outside} of {pairs} pairs lie outside their unadjusted 95{SPACE}% interval; {pairs / 20:.1f} are expected."
    )
    return Answer("error" if claims else "same", sentence, remark, (), _facts(data))


def lead_row(rows: tuple[Row, ...]) -> Row:
    """The comparison that the answer names: of the first verdict in `LEAD_ORDER`, the one farthest from no effect."""

    def rank(row: Row) -> tuple[int, float]:
        ratio = row.comparison.speedup or 1.0
        return LEAD_ORDER.index(row.comparison.verdict), -max(ratio, 1 / ratio)

    return min(rows, key=rank)


def _sentence(row: Row, where: str) -> tuple[Piece, ...]:
    """The answer, as pieces: what the arm does, by how much, how surely, on what, over how many blocks."""
    comparison = row.comparison
    subject = f"{row.arm} in {row.place.workload} {doing(row.place.mode)}"
    basis = f" on {where}, over {count(comparison.blocks, 'block')}."
    if comparison.verdict is Word.INCONCLUSIVE and comparison.speedup is None:
        return (Piece(f"No verdict yet for {subject}: {_reason(comparison)}."),)
    by_verdict = {
        Word.INVALID: (Piece(f"No valid answer for {subject}: {_reason(comparison)}."),),
        Word.NOT_RUN: (Piece(f"Not run: {subject} ({_reason(comparison)})."),),
        Word.INCONCLUSIVE: (
            Piece(f"No verdict yet for {subject}: measured at "),
            Piece(f"{_number(comparison)}{SPACE}×", strong=True),
            Piece(f" the {_quality(comparison)} of {row.baseline} ({_surely(comparison)}){basis}{_wanted(comparison)}"),
        ),
        Word.EQUIVALENT: (
            Piece(f"{row.arm} makes no practical difference to {row.place.workload} {doing(row.place.mode)}: "),
            Piece(f"{_number(comparison)}{SPACE}×", strong=True),
            Piece(f" the {_quality(comparison)} of {row.baseline} ({_surely(comparison)}){basis}"),
        ),
    }
    decided = (
        Piece(f"With {row.arm}, {row.place.workload} {doing(row.place.mode)} has "),
        Piece(f"{_number(comparison)}{SPACE}×", strong=True),
        Piece(f" the {_quality(comparison)} of {row.baseline} ({_surely(comparison)}){basis}"),
    )
    if comparison.metric.startswith("step_time") and comparison.verdict in (Word.FASTER, Word.SLOWER):
        verb = "runs" if row.place.mode != "train" else "trains"
        decided = (
            Piece(f"With {row.arm}, {row.place.workload} {verb} "),
            Piece(f"{_number(comparison)}{SPACE}×", strong=True),
            Piece(f" as fast as {_with_baseline(comparison)} ({_surely(comparison)}){basis}"),
        )
    return by_verdict.get(comparison.verdict, decided)


def _with_baseline(comparison: Comparison) -> str:
    return "in " + arm_name("") if not comparison.baseline else "with " + comparison.baseline


def _quality(comparison: Comparison) -> str:
    """What a speedup is of: of times it is before / after, and so a speed."""
    if comparison.metric.startswith("step_time"):
        return "speed"
    return f"speed ({words(comparison.metric)})" if comparison.unit == "ns" else words(comparison.metric)


def _number(comparison: Comparison) -> str:
    return speedup(comparison.speedup, comparison.ci_low, comparison.ci_high)


def _surely(comparison: Comparison) -> str:
    return f"{level(comparison.ci_level)} interval {interval(comparison.ci_low, comparison.ci_high)}"


def _reason(comparison: Comparison) -> str:
    return (comparison.reason or "no reason is recorded").rstrip(".")


def _wanted(comparison: Comparison) -> str:
    """What it would take to decide, where that is known."""
    needed = f" About {count(comparison.blocks_needed, 'block')} would decide." if comparison.blocks_needed else ""
    effect = comparison.minimal_detectable_effect
    return f"{needed} The smallest effect it could have found is {percent(effect)}." if effect else needed


def _remark(rows: tuple[Row, ...], lead: Row) -> str:
    """Says how the leading comparison was chosen, so that nobody takes the best of many for the only one."""
    if len(rows) == 1:
        return ""
    same = sum(1 for row in rows if row.comparison.verdict == lead.comparison.verdict)
    if lead.comparison.verdict in (Word.FASTER, Word.SLOWER, Word.LOWER, Word.HIGHER) and same > 1:
        return f"The largest of {same} effects found {lead.comparison.verdict}, in {count(len(rows), 'comparison')}."
    return f"One of {count(len(rows), 'comparison')}."


def _finding(row: Row, name_place: bool) -> Finding:
    comparison = row.comparison
    shown = look(comparison)
    numbers = f"{_number(comparison)}{SPACE}×" if comparison.speedup is not None else ""
    bounds = f"({interval(comparison.ci_low, comparison.ci_high)})" if comparison.ci_low is not None else ""
    name = f"{row.place.short}: {row.label}" if name_place else row.label
    return Finding(GLYPHS[comparison.verdict], shown.tone, name, numbers, f"{comparison.verdict} {bounds}".strip())


# ------------------------------------------------------------------------------------------------ the facts around it


def _facts(data: ReportData) -> tuple[tuple[str, str], ...]:
    """Terms and their values, in the order of a reader's questions."""
    blocks = sorted({row.comparison.blocks for row in data.rows if row.comparison.blocks})
    many = f"{blocks[0]} to {blocks[-1]}" if len(blocks) > 1 else str(blocks[0]) if blocks else "none"
    facts = [
        ("Hardware", hardware(data)),
        ("Baseline", ", ".join(sorted({row.baseline for row in data.rows})) or "none"),
        ("Blocks a comparison", many),
        ("Processes measured", str(len(data.timing_trials))),
        ("Measured", _when(data.timing_trials)),
        ("Sessions", str(len(data.judgement.sessions) or len({each.session_id for each in data.timing_trials}))),
    ]
    return tuple(facts)


def hardware(data: ReportData) -> str:
    """The device that was measured, by name; a CPU with its allowed cores."""
    devices = sorted({each.device for each in data.timing_trials})
    named = [_processor(data) if device == "cpu" else device for device in devices]
    return ", ".join(named) or "unknown hardware"


def _processor(data: ReportData) -> str:
    known = {fact.path: fact.value for fact in data.facts if fact.state == "ok" and fact.value}
    cores = known.get("cpu.effective_cores")
    model = known.get("cpu.model") or "a CPU of unknown model"
    return f"{model} ({count(int(cores), 'core')})" if cores and cores.isdigit() else model


def _when(trials: tuple[TrialRecord, ...]) -> str:
    """When the first and the last trial started, as recorded."""
    starts = sorted(each.started_at for each in trials if each.started_at)
    if not starts:
        return "not known"
    first, last = (start[:16].replace("T", " ") for start in (starts[0], starts[-1]))
    return f"{first} UTC" if first == last else f"{first} to {last[11:] if last[:10] == first[:10] else last} UTC"
