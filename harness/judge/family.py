"""What the declared primary family of an experiment is about."""

from __future__ import annotations

from harness.metrics import PRIMARY
from harness.spec import Experiment


def primary_metrics(experiment: Experiment) -> tuple[str, ...]:
    """The metrics that get a verdict of the corrected family, the leading one first; all others are exploratory."""
    return ("latency_p50", "latency_p99") if experiment.measure.protocol == "requests" else (PRIMARY,)
