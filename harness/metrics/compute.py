"""Metrics of the work itself: what training made of the loss, and steps that were skipped."""

from __future__ import annotations

from harness.metrics.types import Metric, from_record

COMPUTE = (
    Metric(
        id="loss_after",
        unit="1",
        better="none",
        summary="loss of the last step (arms may have run different numbers of steps: see numerics for a check)",
        compute=from_record("loss_after"),
    ),
    Metric(
        id="skipped_steps",
        unit="steps",
        better="none",
        summary="optimizer steps skipped by a loss scaler during warm-up",
        compute=from_record("skipped_steps"),
    ),
)
