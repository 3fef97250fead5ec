"""Every metric: a name, a unit, a direction, and a pure function of one trial's record and its steady windows.

A file a kind of metric, each a table; `METRICS` joins them. Importing this costs milliseconds: no numpy, no pandas. A
metric that cannot be computed for a trial is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from harness.metrics.communication import COMMUNICATION
from harness.metrics.compute import COMPUTE
from harness.metrics.device import DEVICE
from harness.metrics.memory import MEMORY
from harness.metrics.summaries import SUMMARIES
from harness.metrics.time import TIME
from harness.metrics.types import Better, Metric, Summary, WindowTable
from harness.record import Measurement, TrialRecord

__all__ = ["METRICS", "PRIMARY", "SUMMARIES", "Better", "Metric", "Summary", "WindowTable", "measure"]

METRICS: Mapping[str, Metric] = MappingProxyType(
    {metric.id: metric for metric in (*TIME, *MEMORY, *DEVICE, *COMPUTE, *COMMUNICATION)}
)
"""All metrics of a trial by id, in the order in which they are listed; `SUMMARIES` are those of more than one."""

PRIMARY = "step_time"
"""What the primary family is about where the experiment asks for nothing else; controls and the noise floor always."""


def measure(metric: str, record: TrialRecord, kept: WindowTable) -> Measurement | None:
    """The metric's value for one trial, given its steady windows (columns of `record.Window`); None where it has
    none.
    """
    definition = METRICS[metric]
    value = definition.compute(record, kept)
    return None if value is None else Measurement(metric=metric, value=value, unit=definition.unit_of(record))
