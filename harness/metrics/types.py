"""What a metric is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harness.record import TrialRecord

Better = Literal["lower", "higher", "none"]

WindowTable = Mapping[str, Any]
"""The windows of one trial as columns (numpy arrays of equal length, NaN for null), named as in `record.Window`."""

Compute = Callable[[TrialRecord, WindowTable], float | None]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric. `compute` gets the trial's record and the windows that are left after the steady cut."""

    id: str
    unit: str
    better: Better
    summary: str
    compute: Compute
    exact: bool = False
    """Whether it has no noise where all replicates agree (peak memory)."""
    per_step: bool = False
    """Whether it is the time of a step, and so grows with what a step does."""
    needs: str = ""
    """What it takes beside a timed trial, in words; empty where every trial has it."""
    cuda: bool = False
    """Whether only a trial on a CUDA device can have it."""

    def unit_of(self, record: TrialRecord) -> str:
        """The unit as printed for this trial."""
        return self.unit


Level = Literal["arm", "comparison", "experiment"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A number that takes more than one trial: its function stands in `metrics.summaries`, or with the statistics."""

    id: str
    unit: str
    better: Better
    summary: str
    level: Level
    """What it is a number of: all trials of an arm, two arms, or a whole experiment."""
    needs: str = ""


def from_record(column: str) -> Compute:
    """A metric that is a column of the trial's record."""

    def compute(record: TrialRecord, kept: WindowTable) -> float | None:
        value = getattr(record, column)
        return None if value is None else float(value)

    return compute


def total(kept: WindowTable, column: str) -> float | None:
    """Sum of a column of windows; None where the column is absent or any of it is unknown."""
    if column not in kept or len(kept[column]) == 0:
        return None
    value = float(kept[column].sum())
    return None if math.isnan(value) else value
