"""The exploratory metrics: plain 95 % intervals, false discoveries held at 10 % over all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.judge.estimate import Estimate, estimate, half_width, p_value
from harness.judge.family import primary_metrics
from harness.judge.multiplicity import FALSE_DISCOVERY_RATE, benjamini_hochberg
from harness.judge.pairing import Contrast
from harness.judge.series import RAW_ALPHA, Series, numbers, series_of
from harness.judge.stopping import FEWEST_BLOCKS
from harness.judge.types import Comparison, Word
from harness.judge.verdict import ABOVE, BELOW, UNDECIDED, decide, log_rope, word_for
from harness.metrics import METRICS
from harness.spec import Experiment


def secondary_metrics(
    experiment: Experiment, found: Sequence[Contrast], primary: Sequence[Comparison]
) -> list[list[Comparison]]:
    """For each contrast in the leading metric the comparisons in the exploratory ones that it has values of.

    None where its numbers are withheld.
    """
    leading, *_ = declared = primary_metrics(experiment)
    rows: list[tuple[int, Series, Estimate | None]] = []
    for index, (contrast, comparison) in enumerate(zip(found, primary, strict=True)):
        if contrast.obstacle is not None or comparison.verdict is Word.INVALID or contrast.metric != leading:
            continue
        for metric in METRICS.values():
            series = series_of(contrast, metric) if metric.id not in declared else None
            if series is not None:
                testable = series.positive and series.blocks >= 2 and metric.better != "none"
                rows.append((index, series, estimate(series.differences, series.order) if testable else None))
    p = [math.nan if of is None or not _is_tested(series) else float(p_value(of)) for _, series, of in rows]
    adjusted = benjamini_hochberg(p) if p else np.zeros(0)
    grouped: list[list[Comparison]] = [[] for _ in found]
    for (index, series, of), q in zip(rows, adjusted, strict=True):
        comparison = _exploratory(experiment, series, of, float(q))
        grouped[index].append(replace(comparison, primary=False, final=primary[index].final))
    return grouped


def _is_tested(series: Series) -> bool:
    return series.blocks >= FEWEST_BLOCKS and not _is_exact(series)


def _is_exact(series: Series) -> bool:
    """Whether a metric that has no noise of its own came out the same in all replicates."""
    before = {value for values in series.baselines for value in values}
    return series.metric.exact and series.blocks >= 2 and len(before) == 1 and len(set(series.after)) == 1


def _exploratory(experiment: Experiment, series: Series, of: Estimate | None, q: float) -> Comparison:
    if of is None:
        described = numbers(experiment, series, None, None, RAW_ALPHA)
        return replace(described, verdict=Word.DESCRIPTIVE, reason="described, not tested")
    half = float(half_width(of, RAW_ALPHA))
    comparison = numbers(experiment, series, of, half, RAW_ALPHA)
    code = int(decide(float(of.center) - half, float(of.center) + half, log_rope(experiment.analysis.rope)))
    if _is_exact(series):
        return replace(comparison, verdict=word_for(code, series.metric), reason="exact: all replicates agree")
    if not _is_tested(series):
        return replace(comparison, verdict=Word.INCONCLUSIVE, reason=f"{series.blocks} complete blocks; too few")
    if code in (ABOVE, BELOW) and q > FALSE_DISCOVERY_RATE:
        code = UNDECIDED
    reason = "exploratory: not in the declared family"
    return replace(
        comparison, verdict=word_for(code, series.metric), reason=reason, adjusted_p=None if math.isnan(q) else q
    )
