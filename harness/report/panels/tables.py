"""Tables that the judge hands over as they are: where the variance lies, and the effects of a factorial design."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.report.data import DETAILED, ReportData
from harness.report.format import arm_name, percent, significant, speedup, words
from harness.report.view import Cell, Column, Group, Panel, Table


def factors(data: ReportData) -> Panel | None:
    """Effects and interactions, where the design is a factorial."""
    if not data.judgement.factors:
        return None
    caption = "Effects and interactions with their intervals, aliases and shares of variance"
    return Panel("factors", "Effects and interactions", "plain.html", (_table(caption, data.judgement.factors),))


def variance(data: ReportData) -> Panel | None:
    """Where the variance lies, and what the next run should do about it."""
    if not data.judgement.variance:
        return None
    rest = len(data.judgement.variance) - DETAILED
    more = f"; the first {DETAILED} rows, {rest} more are computed by the judge" if rest > 0 else ""
    caption = f"Variance within and between processes, by place and arm{more}"
    shown = data.judgement.variance[:DETAILED]
    return Panel("variance", "Where the variance lies", "plain.html", (_table(caption, shown),))


def _table(caption: str, entries: Sequence[Mapping[str, float | str]]) -> Table:
    names = [name for name in dict.fromkeys(name for entry in entries for name in entry) if _tells(name, entries)]
    numeric = {name for name in names if any(isinstance(entry.get(name), int | float) for entry in entries)}
    rows = tuple(tuple(Cell(_text(name, entry)) for name in names) for entry in entries)
    return Table(caption, tuple(Column(words(name), name in numeric) for name in names), (Group(rows),))


def _tells(name: str, entries: Sequence[Mapping[str, float | str]]) -> bool:
    """Whether a column is worth its room: an identity that is the same in all rows is not."""
    return not name.endswith("_id") or len({entry.get(name) for entry in entries}) > 1


def _text(name: str, entry: Mapping[str, float | str]) -> str:
    """One value, written as its name asks for."""
    value = entry.get(name, "")
    if isinstance(value, str):
        return arm_name(value) if name == "arm" else value[:9] if name.endswith("_id") else value
    if name in ("speedup", "ci_low", "ci_high"):
        return speedup(value, _number(entry.get("ci_low")), _number(entry.get("ci_high")))
    if name.endswith(("_sd", "share")):
        return percent(value)
    if name == "p":
        return f"{value:.2g}"
    return f"{value:g}" if value == int(value) else significant(value)


def _number(value: float | str | None) -> float | None:
    return None if isinstance(value, str) else value
