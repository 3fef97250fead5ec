"""The same comparisons on several classes of hardware: whether the effect is the same, and the absolutes apart."""

from __future__ import annotations

from dataclasses import replace

from harness.judge.across import Agreement, agreement
from harness.report.data import Place, ReportData, Row
from harness.report.format import UNKNOWN, interval, quantities, speedup, words
from harness.report.view import Cell, Column, Group, Panel, Table, table

LOOKS = {Agreement.CONSISTENT: ("=", "same"), Agreement.DIFFERS: ("≠", "worse"), Agreement.CANNOT_TELL: ("?", "open")}
"""The glyph and the tone of every label."""


def panel(data: ReportData) -> Panel | None:
    """Effects by class of hardware with their label, then a table of absolutes for each class by itself."""
    classes = list(dict.fromkeys(row.place.hardware for row in data.rows if row.place.hardware))
    if len(classes) < 2:
        return None
    return Panel(
        "across",
        "Across hardware",
        "plain.html",
        (_effects(data, classes), *(_absolutes(data, each) for each in classes)),
    )


def _effects(data: ReportData, classes: list[str]) -> Table:
    """One row a comparison, one column of speedups a class."""
    found: dict[tuple[Place, str, str], list[Row]] = {}
    for row in data.rows:
        found.setdefault((replace(row.place, hardware=""), row.comparison.metric, row.arm), []).append(row)
    groups: dict[str, list[tuple[Cell, ...]]] = {}
    for (place, metric, arm), rows in found.items():
        label, why = agreement([row.comparison for row in rows], data.judgement.experiment.analysis.rope)
        glyph, tone = LOOKS[label]
        by_class = {row.place.hardware: row for row in rows}
        cells = (_effect(by_class.get(name)) for name in classes)
        groups.setdefault(f"{place.title} · {words(metric)}", []).append(
            (Cell(arm), *cells, Cell(f"{glyph}\u00a0{label}", why, tone))
        )
    columns = (Column("Treatment"), *(Column(name, numeric=True) for name in classes), Column("The effect"))
    caption = "Speedup by class of hardware, with the interval that decided; classes are never pooled"
    return Table(caption, columns, tuple(Group(tuple(rows), title) for title, rows in groups.items()))


def _effect(row: Row | None) -> Cell:
    if row is None or row.comparison.speedup is None:
        return Cell("no number", row.comparison.reason if row else "not measured there", "quiet")
    each = row.comparison
    return Cell(speedup(each.speedup, each.ci_low, each.ci_high), interval(each.ci_low, each.ci_high))


def _absolutes(data: ReportData, hardware: str) -> Table:
    """What was measured on one class: to be compared within it only."""
    rows = []
    for row in data.rows:
        if row.place.hardware == hardware:
            each = row.comparison
            before, after = quantities([each.before, each.after], each.unit)
            place = replace(row.place, hardware="").title
            rows.append((place, row.arm, words(each.metric), *(text or UNKNOWN for text in (before, after))))
    return table(f"Absolute values on {hardware}", "Where | Treatment | Metric | # Before | # After", rows)
