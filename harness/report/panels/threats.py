"""The threats to validity that the harness found by itself, worst first."""

from __future__ import annotations

from dataclasses import dataclass

from harness.record import Outcome
from harness.report.data import ReportData, column
from harness.report.format import count
from harness.report.view import Panel
from harness.spec import Analysis

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
    return Panel("threats", "Threats to validity", "threats.html", tuple(shown + _load(data) + _unknown_facts(data)))


def _load(data: ReportData) -> list[Shown]:
    """Other work on the machine that the limits let pass or nobody could see: "none found" would say too much."""
    found = []
    for what, field, limit, usual, unit in (
        ("foreign load", "foreign_cpu_share", data.judgement.experiment.analysis.max_foreign_cpu_share,
         Analysis().max_foreign_cpu_share, "cores"),
        ("stolen CPU time", "steal_share", data.judgement.experiment.analysis.max_steal_share,
         Analysis().max_steal_share, "of the CPU time"),
    ):  # fmt: skip
        timed = [each for each in data.timing_trials if each.outcome == Outcome.OK]
        seen = column(timed, field)
        if timed and not seen:
            found.append(Shown(*SEVERITIES["note"], "note", f"{what.capitalize()} could not be read: it is unknown."))
        elif seen and max(seen) > usual:
            text = f"Up to {max(seen):.2g} {unit} of {what} in trials that count: the limit was set to {limit:g}."
            found.append(Shown(*SEVERITIES["warning"], "warning", text))
    return found


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
