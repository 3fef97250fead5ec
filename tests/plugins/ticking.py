"""A workload without torch whose step takes a known time, so that whole runs are quick."""

from __future__ import annotations

import time

from harness.spec import PlainBench, Workload


def plain(mode: str, seed: int, milliseconds: float) -> PlainBench:
    """A step that computes for a given time (sleeping would be no work, and badly timed)."""

    def step() -> None:
        end = time.perf_counter_ns() + int(milliseconds * 1e6)
        while time.perf_counter_ns() < end:
            pass

    return PlainBench(step, 1)


WORKLOAD = Workload(
    name="ticking",
    summary="computes for a given time",
    sources=(),
    unit="steps",
    traits=frozenset(),
    presets={"tiny": {"milliseconds": 2.0}},
    plain=plain,
)
