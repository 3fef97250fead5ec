"""The method: what was done, and every metric, formula and rule behind a number of this report."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judge.types import Word
from harness.metrics import METRICS
from harness.report.data import ReportData
from harness.report.format import UNKNOWN, verdict_text, words
from harness.report.view import Panel, Table, table
from harness.spec import Analysis, Measure

BETTER = {"lower": "lower is better", "higher": "higher is better", "none": "descriptive"}


@dataclass(frozen=True)
class Method:
    """What the template fills into its text."""

    rope: str
    alpha: str
    blocks: str
    budget: str
    settings: Table
    metrics: Table
    verdicts: Table


def panel(data: ReportData) -> Panel:
    """The method, with this experiment's settings in it."""
    analysis, measure = data.judgement.experiment.analysis, data.judgement.experiment.measure
    method = Method(
        rope=f"±{analysis.rope * 100:g}\u00a0%",
        alpha=f"{analysis.alpha * 100:g}\u00a0%",
        blocks=f"at least {analysis.min_blocks} and at most {analysis.max_blocks}",
        budget=f"The time budget was {analysis.budget}." if analysis.budget else "No time budget was set.",
        settings=_settings(analysis, measure, data.judgement.experiment.seed),
        metrics=_metrics(data),
        verdicts=_verdicts(f"{analysis.rope * 100:g}\u00a0%"),
    )
    return Panel("method", "Method", "method.html", method)


def _settings(analysis: Analysis, measure: Measure, seed: int) -> Table:
    def or_default(value: float, unit: str = "") -> str:
        return f"{value:g}{unit}" if value else "the device's default"

    rows = [
        ("windows wanted a process, at least", or_default(measure.windows)),
        ("length of a window", f"{measure.window_ms:g}\u00a0ms of steps, and at least one step"),
        ("warm-up steps before the first window", or_default(measure.warmup_steps)),
        ("timed part a process, at most", or_default(measure.timed_seconds, "\u00a0s")),
        ("extensions of an unsteady process", str(measure.extensions)),
        ("compile cache", measure.compile_cache),
        ("protocol", measure.protocol),
        ("seed of the order and of the processes", str(seed)),
        (
            "precision asked for",
            f"±{analysis.precision * 100:g}\u00a0%" if analysis.precision else "none: stop at the verdict",
        ),
        (
            "looks",
            "open-ended, by an anytime-valid interval" if analysis.open_ended else "at 4, 6, 9, 13, 19 and 28 blocks",
        ),
    ]
    return table("Settings of this experiment", "setting | value", rows)


def _metrics(data: ReportData) -> Table:
    used = dict.fromkeys(each.metric for each in data.judgement.comparisons)
    units = {each.metric: each.unit for each in data.judgement.comparisons}
    rows = []
    for name in used:
        known = METRICS.get(name)
        better = BETTER[known.better] if known else UNKNOWN
        rows.append((words(name), known.summary if known else UNKNOWN, units[name], better))
    return table("Metrics in this report", "metric | what it is | stored unit | direction", rows, "wordy")


def _verdicts(rope: str) -> Table:
    """The verdict words in the order in which they are evaluated."""
    conditions = {
        Word.INVALID: "a gate failed: processes not steady or disturbed, wrong numerics, a failed negative control, or "
        "arms that are not comparable",
        Word.EQUIVALENT: f"the interval lies within ±{rope} of no effect",
        Word.FASTER: "the interval excludes no effect, on the better side (of other metrics: lower or higher)",
        Word.SLOWER: "the interval excludes no effect, on the worse side",
        Word.INCONCLUSIVE: "blocks or budget are spent, and none of the above holds",
        Word.NOT_RUN: "skipped, failed, or present on one side only; the reason says which",
    }
    rows = [(verdict_text(verdict), condition) for verdict, condition in conditions.items()]
    return table("Verdicts, in the order in which they are evaluated", "verdict | condition", rows)
