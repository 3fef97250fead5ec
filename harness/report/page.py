"""Makes the report: one offline HTML file as a pure function of a judgement and the records behind it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import jinja2
from markupsafe import Markup

from harness.judge.claims import JudgedClaim
from harness.judge.types import Judgement
from harness.record import Fact, TrialRecord
from harness.report.data import Arrays, ReportContext, ReportData
from harness.report.figures import write_png
from harness.report.format import doing
from harness.report.panels import (
    across,
    answer,
    calibration,
    cells,
    claims,
    comparisons,
    counts,
    environment,
    forest,
    matrix,
    method,
    plane,
    reading,
    reproduce,
    tables,
    threats,
)
from harness.report.privacy import Filter
from harness.report.view import Panel

TEMPLATES = Path(__file__).parent / "templates"

PANELS: tuple[Callable[[ReportData], Panel | None], ...] = (
    answer.panel,
    counts.panel,
    threats.panel,
    comparisons.panel,
    forest.panel,
    matrix.panel,
    plane.panel,
    tables.factors,
    cells.panel,
    across.panel,
    tables.variance,
    calibration.panel,
    calibration.sessions,
    method.panel,
    environment.panel,
    reproduce.panel,
    reading.panel,
)
"""The sections in the order in which they stand. One that has nothing to show returns None and leaves no trace."""


def render(
    judgement: Judgement,
    trials: Sequence[TrialRecord],
    windows: Mapping[str, Arrays],
    facts: Sequence[Fact],
    samples: Mapping[str, Arrays],
    context: ReportContext,
) -> str:
    """The whole report as HTML: the same input gives the same bytes, on any day.

    `windows` and `samples` hold a trial's columns by its id (times in nanoseconds, NaN for unknown); `facts` are those
    of the environment that measured last.
    """
    data = report_data(judgement, trials, windows, facts, samples, context)
    panels = [each for each in (make(data) for make in PANELS) if each is not None]
    return _page(title(data), data.context.generator, panels, main="comparisons")


def render_claims(
    rows: Sequence[JudgedClaim],
    not_run: Sequence[tuple[str, str]],
    hardware: str,
    generator: str,
    private_words: Sequence[str] = (),
) -> str:
    """The claims ledger as HTML, from verdicts alone: the same input gives the same bytes."""
    door = Filter(private_words)
    panels = claims.panels(door.clean(tuple(rows)), door.clean(tuple(not_run)))
    return _page(
        door.text(f"What the articles claim, and what was measured on {hardware}"), generator, panels, "claims"
    )


def _page(heading: str, generator: str, panels: Sequence[Panel], main: str) -> str:
    """The panels as one offline file; `main` is the section that a reader can skip to."""
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    template = _templates().get_template("page.html")
    return template.render(
        # Our own file, not data: the only text that is not escaped.
        style=Markup(style),
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'",
        title=heading,
        generator=generator,
        panels=panels,
        main=main,
    )


def export_png(data: ReportData, folder: Path) -> list[Path]:
    """The report's figures as PNG files for slides and papers; `report_data` makes the data."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for source in (forest, plane, cells):
        for name, draw in source.drawings(data).items():
            path = folder / f"{name}.png"
            write_png(draw, path)
            written.append(path)
    return written


def report_data(
    judgement: Judgement,
    trials: Sequence[TrialRecord],
    windows: Mapping[str, Arrays],
    facts: Sequence[Fact],
    samples: Mapping[str, Arrays],
    context: ReportContext,
) -> ReportData:
    """The input, cleaned of everything that must not be published: the one door into a report."""
    door = Filter(context.private_words)
    environments = {name: door.facts(each) for name, each in context.environments.items()}
    public = replace(context, environments=environments, private_words=())
    return ReportData(
        judgement=door.clean(judgement),
        trials=tuple(door.clean(each) for each in trials),
        windows=windows,
        samples=samples,
        facts=door.facts(facts),
        context=door.clean(public),
        filter=door,
    )


def title(data: ReportData) -> str:
    """The experiment's question, or one made of what it compares."""
    experiment = data.judgement.experiment
    if experiment.question:
        return experiment.question
    names = list(dict.fromkeys(place.workload for place in data.places)) or list(experiment.workloads)
    shown = ", ".join(names[:4]) + (" and more" if len(names) > 4 else "")
    return f"What makes {doing(experiment.mode)} of {shown or 'nothing'} faster here?"


def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
