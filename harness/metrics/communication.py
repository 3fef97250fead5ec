"""Metrics of what the ranks of a trial exchange; a single process has none."""

from __future__ import annotations

from harness.metrics.types import Metric, from_record

COMMUNICATION = (
    Metric(
        id="comm_bytes",
        unit="bytes",
        better="lower",
        summary="bytes a rank sends in a step by a ring, counted in the collectives of a profiled step",
        compute=from_record("comm_bytes"),
        exact=True,
    ),
    Metric(
        id="comm_time",
        unit="ns",
        better="lower",
        summary="time of a profiled step during which ranks exchanged something, beside computing or not",
        compute=from_record("comm_ns"),
    ),
)
