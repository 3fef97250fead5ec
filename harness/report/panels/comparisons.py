"""The comparison table: before, after, speedup, memory, utilization, blocks and verdict of every comparison."""

from __future__ import annotations

from harness.judge.types import Comparison, Word
from harness.record import TrialRecord
from harness.report.data import Place, ReportData, Row, column
from harness.report.format import (
    UNKNOWN,
    change,
    interval,
    level,
    look,
    percent,
    quantities,
    relative_half_width,
    shortened,
    speedup,
    verdict_text,
    words,
)
from harness.report.view import Cell, Column, Group, Panel, Table

EFFECTS = (Word.FASTER, Word.SLOWER, Word.LOWER, Word.HIGHER)
LONG = 200
"""In a table of more rows than this a reason is cut, and the level is left to the numbers of each comparison."""


def panel(data: ReportData) -> Panel:
    """The table, grouped by place."""
    return Panel("comparisons", "Comparisons", "comparisons.html", comparison_table(data))


def comparison_table(data: ReportData) -> Table:
    """All primary comparisons; rows without a number say so in words."""
    many_metrics = len(data.metrics) > 1
    groups = []
    for place, metric, rows in data.groups:
        title = f"{place.title} · {words(metric)}" if many_metrics else place.title
        reference = tuple(
            _baseline_row(place, arm, rows) for arm in dict.fromkeys(row.comparison.baseline for row in rows)
        )
        groups.append(
            Group(
                (
                    *reference,
                    *(_row(row, data.judgement.experiment.analysis.rope, len(data.rows) > LONG) for row in rows),
                ),
                title,
            )
        )
    metric = f"the {words(data.metrics[0])}" if len(data.metrics) == 1 else "values of the metric named above them"
    columns = (
        Column("Treatment"),
        Column("Before", numeric=True),
        Column("After", numeric=True),
        Column("Speedup", numeric=True),
        Column("Interval", numeric=True),
        Column("Verdict"),
        Column("Peak memory", numeric=True),
        Column(f"{_processor(data.timing_trials)} use", numeric=True),
        Column("Blocks", numeric=True),
    )
    caption = (
        f"Before and after are {metric}; speedup = before / after, above 1 is faster. Each treatment is compared with "
        "the baseline of its own blocks; the interval is the one that decided, at its level."
    )
    return Table(caption, columns, tuple(groups), "comparisons")


def _baseline_row(place: Place, arm: str, rows: tuple[Row, ...]) -> tuple[Cell, ...]:
    """The baseline's own row: its speedup is 1.00 by definition."""
    first = next((row for row in rows if row.comparison.baseline == arm and row.comparison.before is not None), None)
    if first is None:
        return (Cell(arm or "plain PyTorch", "baseline"), *_blank(4), Cell("baseline"), *_blank(3))
    comparison, memory = first.comparison, first.memory
    before = quantities([comparison.before], comparison.unit, _relative(comparison))[0]
    return (
        Cell(first.baseline, "baseline"),
        Cell(before),
        Cell("–"),
        Cell("1.00"),
        Cell("–"),
        Cell("baseline", style="quiet"),
        Cell(quantities([memory.before], memory.unit)[0] if memory else "–"),
        _utilization(first.baseline_trials),
        Cell("–"),
    )


def _blank(number: int) -> tuple[Cell, ...]:
    return tuple(Cell("–") for _ in range(number))


def _row(row: Row, rope: float, brief: bool) -> tuple[Cell, ...]:
    comparison = row.comparison
    name = Cell(row.arm, anchor=row.anchor if row.detailed else "")
    if comparison.speedup is None:
        return (
            name,
            Cell("no number", style="quiet"),
            *_blank(3),
            _verdict(row, rope, brief),
            *_blank(2),
            _blocks(comparison),
        )
    before, after = quantities([comparison.before, comparison.after], comparison.unit, _relative(comparison))
    bounds = interval(comparison.ci_low, comparison.ci_high)
    return (
        name,
        Cell(before),
        Cell(after),
        Cell(
            speedup(comparison.speedup, comparison.ci_low, comparison.ci_high),
            style="quiet" if comparison.verdict == Word.INVALID else look(comparison).tone,
        ),
        Cell(bounds, "" if brief or bounds == UNKNOWN else f"at {level(comparison.ci_level)}"),
        _verdict(row, rope, brief),
        _memory(row.memory, brief),
        _utilization(row.trials),
        _blocks(comparison),
    )


def _verdict(row: Row, rope: float, brief: bool) -> Cell:
    """The verdict in a glyph and a word; under it how it lies to the region of equivalence or the reason, and notes."""
    comparison = row.comparison
    reason = shortened(comparison.reason, 80) if brief else comparison.reason
    if comparison.verdict in EFFECTS:
        where = "beyond" if comparison.beyond_rope else "reaches into"
        reason = "" if brief else f"{where} ±{rope * 100:g}\u00a0%"
    notes = () if brief else comparison.notes
    detail = "; ".join(each.rstrip(".") for each in (reason, *notes) if each)
    return Cell(verdict_text(comparison.verdict), detail, look(comparison).tone)


def _memory(memory: Comparison | None, brief: bool) -> Cell:
    """The treated arm's peak memory, and the change against the baseline under it."""
    if memory is None or memory.after is None:
        return Cell(UNKNOWN, style="quiet")
    after = quantities([memory.before, memory.after], memory.unit)[1]
    if brief or not memory.before:
        return Cell(after)
    return Cell(after, change(memory.after / memory.before))


def _blocks(comparison: Comparison) -> Cell:
    dropped = f"{comparison.dropped_blocks} discarded" if comparison.dropped_blocks else ""
    return Cell(str(comparison.blocks or "none"), dropped)


def _relative(comparison: Comparison) -> float | None:
    return relative_half_width(comparison.ci_low, comparison.ci_high)


def _processor(trials: tuple[TrialRecord, ...]) -> str:
    return "GPU" if any(each.gpu_utilization is not None for each in trials) else "CPU"


def _utilization(trials: tuple[TrialRecord, ...]) -> Cell:
    """Mean over processes: the GPU's where the driver gave it, else the CPU's."""
    values = column(trials, "gpu_utilization") or column(trials, "cpu_utilization")
    return Cell(percent(sum(values) / len(values))) if values else Cell(UNKNOWN, style="quiet")


CSV_FIELDS = (
    *("workload", "mode", "preset", "input", "axes", "arm", "baseline", "metric", "unit", "before", "after", "speedup"),
    *("ci_low", "ci_high", "ci_level", "raw_ci_low", "raw_ci_high", "blocks", "verdict", "reason"),
)


def comparisons_csv(data: ReportData) -> str:
    """The primary comparisons as CSV, full precision; texts that a spreadsheet would run as a formula are guarded."""
    lines = [",".join(CSV_FIELDS)]
    for row in data.rows:
        axes = " ".join(f"{name}={value}" for name, value in row.place.axes)
        values = (axes if name == "axes" else getattr(row.comparison, name) for name in CSV_FIELDS)
        lines.append(",".join(csv_field(value) for value in values))
    return "\n".join(lines) + "\n"


def csv_field(value: object) -> str:
    """One CSV field: numbers as they are, nothing for what is not known, texts quoted where they need it."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return f"{float(value)!r}".removesuffix(".0")
    text = str(value)
    if text.lstrip()[:1] in tuple("=+-@"):
        text = "'" + text
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n\r\t') else text
