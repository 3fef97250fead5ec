"""The matrix of treatments by workloads, with geometric means over the cells that passed in both arms."""

from __future__ import annotations

import math

from harness.judge.types import Comparison, Word
from harness.report.data import Place, ReportData
from harness.report.format import GLYPHS, SPACE, arm_name, look, speedup, verdict_text, words
from harness.report.view import Cell, Column, Group, Panel, Table

STRENGTHS = (1.02, 1.10, 1.35)
"""Where a cell's shade grows by one: the ratio to the baseline, in either direction."""


def panel(data: ReportData) -> Panel | None:
    """The matrix, where there is more than one place."""
    if len(data.places) < 2:
        return None
    return Panel("matrix", "Treatments by workloads", "matrix.html", _table(data))


def _table(data: ReportData) -> Table:
    metric = data.metrics[0]
    found = {(row.place, row.comparison.arm): row.comparison for row in data.rows if row.comparison.metric == metric}
    arms = list(dict.fromkeys(row.comparison.arm for row in data.rows))
    columns = [Column("Treatment"), *(Column(_heading(place, data.places)) for place in data.places)]
    rows = tuple(
        (
            Cell(arm_name(arm)),
            *(_cell(found.get((place, arm))) for place in data.places),
            _mean([found.get((place, arm)) for place in data.places]),
        )
        for arm in arms
    )
    caption = (
        f"Speedup ({words(metric)}) of each treatment (rows) on each workload (columns). Blue is better, orange is "
        "worse, the shade grows with the effect; no shade is equivalent or undecided. The mean is geometric, over the "
        "valid cells that gave a number in both arms; below it, how many of all."
    )
    return Table(caption, (*columns, Column("Geometric mean")), (Group(rows),), "matrix")


def _heading(place: Place, places: tuple[Place, ...]) -> str:
    """The place, with what is not the same everywhere."""
    settings = (("mode", place.mode), ("preset", place.preset), ("input", place.input))
    varied = [value for name, value in settings if any(getattr(each, name) != value for each in places)]
    return " ".join([place.short, *varied])


def _cell(comparison: Comparison | None) -> Cell:
    if comparison is None:
        return Cell("not planned", style="quiet")
    shown = look(comparison)
    if comparison.speedup is None:
        return Cell(verdict_text(comparison.verdict), style=f"{shown.tone} quiet")
    number = speedup(comparison.speedup, comparison.ci_low, comparison.ci_high)
    return Cell(f"{GLYPHS[comparison.verdict]}{SPACE}{number}", style=f"{shown.tone} {_shade(comparison)}".strip())


def _shade(comparison: Comparison) -> str:
    """The style class for the size of a decided effect: shade-1 to shade-4."""
    if comparison.verdict not in (Word.FASTER, Word.SLOWER, Word.LOWER, Word.HIGHER) or not comparison.speedup:
        return ""
    ratio = max(comparison.speedup, 1 / comparison.speedup)
    return f"shade-{1 + sum(ratio >= limit for limit in STRENGTHS)}"


def _mean(comparisons: list[Comparison | None]) -> Cell:
    """Geometric mean of the valid speedups, and over how many of the planned ones."""
    planned = [each for each in comparisons if each is not None]
    ratios = [each.speedup for each in planned if each.speedup and each.verdict not in (Word.INVALID, Word.NOT_RUN)]
    if not ratios:
        return Cell("no valid cell", f"0 of {len(planned)}", "quiet")
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    return Cell(f"{mean:.2f}", f"over {len(ratios)} of {len(planned)}")
