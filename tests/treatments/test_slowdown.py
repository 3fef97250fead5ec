"""What is planted is what was asked for, by the clock."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from harness.spec import NoEffect
from harness.treatments import slowdown


def busy(nanoseconds: int) -> None:
    until = time.perf_counter_ns() + nanoseconds
    while time.perf_counter_ns() < until:
        pass


def bench() -> SimpleNamespace:
    return SimpleNamespace(device="cpu", kept={})


@pytest.mark.parametrize("percent", [5.0, 50.0])
def test_plants_the_share_it_says(percent: float) -> None:
    step, slowed = lambda: busy(1_000_000), slowdown.between(lambda: busy(1_000_000), bench(), percent=percent)
    times: tuple[list[int], list[int]] = ([], [])
    for _ in range(60):
        for run, found in zip((step, slowed), times, strict=True):
            start = time.perf_counter_ns()
            run()
            found.append(time.perf_counter_ns() - start)
    assert min(times[1]) / min(times[0]) == pytest.approx(1 + percent / 100, abs=0.01)  # the undisturbed ones


def test_evidence_counts_from_the_end_of_the_warm_up() -> None:
    trial = bench()
    slowed = slowdown.between(lambda: busy(200_000), trial, percent=10.0)
    slowed()
    snapshot = slowdown.before(trial, percent=10.0)
    for _ in range(5):
        slowed()
    evidence = slowdown.after(trial, snapshot, None, percent=10.0)
    assert evidence["calls"] == 5
    assert evidence["planted_percent"] >= 9


def test_refuses_where_nothing_was_planted() -> None:
    trial = bench()
    with pytest.raises(NoEffect, match="nothing was planted"):
        slowdown.after(trial, slowdown.before(trial, percent=5.0), None, percent=5.0)


def test_refuses_less_than_was_asked_for() -> None:
    trial = bench()
    slowed = slowdown.between(lambda: busy(200_000), trial, percent=5.0)
    snapshot = slowdown.before(trial, percent=50.0)
    slowed()
    with pytest.raises(NoEffect, match="not 50 %"):
        slowdown.after(trial, snapshot, None, percent=50.0)


@pytest.mark.parametrize(("planted", "accepted"), [(0, False), (44, False), (46, True), (149, True), (151, False)])
def test_a_wait_far_from_what_was_asked_is_refused(planted: int, accepted: bool) -> None:
    bench = SimpleNamespace(kept={"slowdown": {"calls": 10, "step_ns": 1000, "planted_ns": planted}})
    snapshot = {"calls": 0, "step_ns": 0, "planted_ns": 0}
    if accepted:
        assert slowdown.after(bench, snapshot, None, percent=5.0)["planted_percent"] == planted / 10
    else:
        with pytest.raises(NoEffect, match="planted"):
            slowdown.after(bench, snapshot, None, percent=5.0)
