"""Each comparison in detail: its blocks, every window, start-up, memory, clocks, what its proofs found."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from harness.metrics.summaries import break_even_steps, oom_rate
from harness.record import TrialRecord
from harness.report.data import DETAILED, WINDOWS_DRAWN, ReportData, Row, column, median, passed
from harness.report.figures import Drawing, picture
from harness.report.format import (
    GLYPHS,
    SPACE,
    UNKNOWN,
    count,
    interval,
    look,
    percent,
    quantities,
    relative_half_width,
    significant,
    speedup,
    words,
)
from harness.report.panels import blocks, ranks, windows
from harness.report.view import Cell, FigureView, Panel, Table, table

OPENED = 3
"""Up to so many comparisons stand open in the page; more are folded."""

MEMORY = (
    ("resident (host)", "peak_host_bytes"),
    ("allocated (device)", "peak_allocated_bytes"),
    ("reserved (device)", "peak_reserved_bytes"),
    ("whole process (device, by the driver)", "peak_device_bytes"),
)
STARTUP = (
    ("imports", "startup_import_ns"),
    ("build: data, model, treatments, optimizer", "startup_build_ns"),
    ("first step, compilation included", "startup_first_step_ns"),
    ("of it, the compiler", "startup_compile_ns"),
    ("process start to first warm step", "startup_total_ns"),
)
CLOCKS = (
    ("CPU frequency", "cpu_frequency_mhz", "MHz"),
    ("SM clock", "sm_clock_mhz", "MHz"),
    ("memory clock", "memory_clock_mhz", "MHz"),
    ("board power", "power_mw", "mw"),
    ("temperature", "temperature_c", "°C"),
)


@dataclass(frozen=True)
class Detail:
    """One comparison, folded under its summary line."""

    anchor: str
    title: str
    place: str
    glyph: str
    tone: str
    verdict: str
    opened: bool
    figures: tuple[FigureView, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True)
class Details:
    """The section."""

    rule: str
    """Which comparisons are shown, and what becomes of the others."""
    comparisons: tuple[Detail, ...]


def panel(data: ReportData) -> Panel | None:
    """Details of the first comparisons of the table that have a block."""
    if not data.detailed:
        return None
    rest = data.undetailed_count
    shown = len(data.detailed)
    rule = (
        f"These are the first {shown} comparisons of the table that have a complete block (at most {DETAILED}, and "
        f"at most {WINDOWS_DRAWN} windows). "
        f"{count(rest, 'further comparison')} with blocks stand in the table only; their windows are in the "
        "Parquet files under results/steps."
        if rest
        else "All comparisons that have a complete block, in the table's order."
    )
    opened = len(data.detailed) <= OPENED
    details = tuple(_detail(data, row, opened) for row in data.detailed)
    return Panel("details", "Each comparison in detail", "cells.html", Details(rule, details))


def drawings(data: ReportData) -> dict[str, Drawing]:
    """For slides: the blocks of every detailed comparison."""
    rope = data.judgement.experiment.analysis.rope
    return {f"blocks-{row.number}": partial(blocks.draw, row, rope) for row in data.detailed}


def _detail(data: ReportData, row: Row, opened: bool) -> Detail:
    comparison = row.comparison
    number = (
        f"{speedup(comparison.speedup, comparison.ci_low, comparison.ci_high)}{SPACE}×" if comparison.speedup else ""
    )
    bounds = f"({interval(comparison.ci_low, comparison.ci_high)})" if comparison.ci_low else ""
    optional = (_memory(row), ranks.view(row), _clocks(data, row), _others(row), _summaries(row), _evidence(data, row))
    return Detail(
        anchor=row.anchor,
        title=row.label,
        place=row.place.title,
        glyph=GLYPHS[comparison.verdict],
        tone=look(comparison).tone,
        verdict=f"{comparison.verdict} {number} {bounds}".strip(),
        opened=opened,
        figures=_figures(data, row),
        tables=(_startup(row), *(each for each in optional if each is not None)),
    )


def _figures(data: ReportData, row: Row) -> tuple[FigureView, ...]:
    strip = blocks.view(row, picture(partial(blocks.draw, row, data.judgement.experiment.analysis.rope)))
    baseline, treated = windows.processes(data, row.baseline_trials), windows.processes(data, row.trials)
    if not (baseline and treated):
        return (strip,)
    return strip, windows.view(row, baseline, treated, picture(partial(windows.draw, row, baseline, treated)))


# ------------------------------------------------------------------------------------------------ tables


def _startup(row: Row) -> Table:
    rows = []
    for name, field in STARTUP:
        before, after = median(column(row.baseline_trials, field)), median(column(row.trials, field))
        if before is not None or after is not None:
            rows.append((name, *quantities([before, after], "ns")))
    return table(
        "Start-up, median over processes; never part of the step time", "phase | # baseline | # treated", list(rows)
    )


def _memory(row: Row) -> Table | None:
    rows: list[tuple[str | Cell, ...]] = []
    for name, field in MEMORY:
        arms = [column(trials, field) for trials in (row.baseline_trials, row.trials)]
        if any(arms):
            rows.append((name, *(_extent(values, "bytes") for values in arms)))
    caption = "Peak memory of the timed part: median over processes, below it least to greatest"
    return table(caption, "kind | # baseline | # treated", rows) if rows else None


def _extent(values: Sequence[float], unit: str) -> Cell:
    """The median, and under it the extremes where they differ from one another."""
    if not values:
        return Cell(UNKNOWN)
    middle, least, greatest = quantities([median(values), min(values), max(values)], unit)
    return Cell(middle, "" if least == greatest else f"{least} to {greatest}")


def _clocks(data: ReportData, row: Row) -> Table | None:
    """What the sampler saw from outside while the arms ran, and the load of others."""
    rows: list[tuple[str | Cell, ...]] = []
    arms = (passed(row.baseline_trials), passed(row.trials))
    for name, field, unit in CLOCKS:
        values = [_sampled(data, trials, field) for trials in arms]
        if any(values):
            rows.append((name, *(_extent(each, unit) for each in values)))
    for name, field in (("CPU utilization", "cpu_utilization"), ("GPU utilization (driver)", "gpu_utilization")):
        shares = [column(trials, field) for trials in arms]
        if any(shares):
            rows.append((name, *(percent(median(each)) for each in shares)))
    for name, field in (
        ("stolen CPU time, greatest", "steal_share"),
        ("foreign load, greatest, cores", "foreign_cpu_share"),
    ):
        most = [max(column(trials, field), default=None) for trials in arms]
        if any(each is not None for each in most):
            show = percent if field == "steal_share" else partial(significant, digits=2)
            rows.append((name, *(UNKNOWN if each is None else show(each) for each in most)))
    caption = "Clocks, power, utilization and disturbance: median over processes, below it least to greatest"
    return table(caption, "quantity | # baseline | # treated", rows) if rows else None


def _sampled(data: ReportData, trials: Sequence[TrialRecord], field: str) -> list[float]:
    """Per process, the median over its samples."""
    medians = []
    for trial in trials:
        samples = data.samples.get(trial.trial_id, {})
        values = np.asarray(samples[field], dtype=float) if field in samples else np.empty(0)
        values = values[np.isfinite(values)]
        if len(values):
            medians.append(float(np.median(values)))
    return medians


def _others(row: Row) -> Table | None:
    """Secondary metrics, exploratory."""
    rows = []
    for each in row.others:
        if each.before is None and each.after is None:
            continue
        before, after = quantities([each.before, each.after], each.unit, relative_half_width(each.ci_low, each.ci_high))
        ratio = speedup(each.speedup, each.ci_low, each.ci_high) if each.speedup else "–"
        bounds = interval(each.ci_low, each.ci_high) if each.ci_low else ""
        verdict = Cell(str(each.verdict), style=look(each).tone)
        rows.append((words(each.metric), before, after, Cell(ratio, bounds), verdict))
    caption = "Other metrics, exploratory; the ratio is above 1 where the treated arm is better"
    columns = "metric | # baseline | # treated | # ratio | verdict"
    return table(caption, columns, rows) if rows else None


def _summaries(row: Row) -> Table:
    """Numbers that take all trials of an arm, or both arms."""
    rates = [UNKNOWN if rate is None else percent(rate) for rate in map(oom_rate, (row.baseline_trials, row.trials))]
    both = {each.metric: each for each in row.others if each.before is not None and each.after is not None}
    before, after = (
        {name: value for name, each in both.items() if (value := getattr(each, side)) is not None}
        for side in ("before", "after")
    )
    steps = break_even_steps(before, after)
    pays = "never, or not known" if steps is None else "at once" if steps == 0 else f"after {math.ceil(steps):,} steps"
    rows = [
        (f"trials out of memory, of {len(row.baseline_trials)} and {len(row.trials)}", *rates),
        ("a longer start is paid for by faster steps", "–", pays),
    ]
    return table("Numbers of whole arms, not tested", "quantity | # baseline | # treated", rows)


def _evidence(data: ReportData, row: Row) -> Table | None:
    """What the proofs found in the last process that passed: the sign that the treatment took effect."""
    trials = passed(row.trials)
    found = data.decoded(trials[-1].evidence_json) if trials else {}
    rows = [
        (
            name,
            words(key),
            str(value) if isinstance(value, str | int | float) else json.dumps(value, sort_keys=True)[:200],
        )
        for name, facts in sorted(found.items())
        for key, value in (sorted(facts.items()) if isinstance(facts, dict) else [("found", facts)])
    ]
    return table("Evidence that it applied, from the last process", "treatment | what | found", rows) if rows else None
