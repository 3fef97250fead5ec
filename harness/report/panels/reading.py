"""How to read the report: the words, the glyphs and the conventions, for who opens it first."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.data import ReportData
from harness.report.format import GLYPHS, TONES
from harness.report.view import Panel


@dataclass(frozen=True)
class Sign:
    """One glyph of the legend."""

    glyph: str
    tone: str
    word: str


def panel(data: ReportData) -> Panel:
    """The legend and the words; the same in every report."""
    signs = tuple(Sign(glyph, TONES.get(verdict, "same"), str(verdict)) for verdict, glyph in GLYPHS.items())
    return Panel("reading", "How to read this report", "reading.html", signs)
