"""The threats to validity that the harness found by itself, worst first."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.data import ReportData
from harness.report.format import count
from harness.report.view import Panel

SEVERITIES = {"invalid": ("✕", "error"), "warning": ("!", "worse"), "note": ("i", "open")}
"""By severity, worst first: the glyph and the tone it is shown with."""


@dataclass(frozen=True)
class Shown:
    """One threat, ready to print."""

    glyph: str
    tone: str
    severity: str
    text: str


def panel(data: ReportData) -> Panel:
    """The list of threats; where it is empty, what was looked for."""
    order = list(SEVERITIES)
    found = sorted(data.judgement.threats, key=lambda each: order.index(each.severity) if each.severity in order else 0)
    shown = [Shown(*SEVERITIES.get(each.severity, SEVERITIES["invalid"]), each.severity, each.text) for each in found]
    return Panel("threats", "Threats to validity", "threats.html", tuple(shown + _unknown_facts(data)))


def _unknown_facts(data: ReportData) -> list[Shown]:
    """Facts of the identity or of the hardware that could not be read: they never compare equal to anything."""
    unknown = sorted({fact.path for fact in data.facts if fact.kind != "context" and fact.state in ("denied", "error")})
    if not unknown:
        return []
    named = ", ".join(unknown[:8]) + (" and more" if len(unknown) > 8 else "")
    return [
        Shown(
            *SEVERITIES["note"], "note", f"{count(len(unknown), 'fact')} of the environment could not be read: {named}."
        )
    ]
