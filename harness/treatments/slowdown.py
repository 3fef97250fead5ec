"""Plants a known slowdown, a wait after each step for a share of the step's own time: for checking the harness itself.

A measurement that cannot find what was planted cannot be trusted with what was not. On a CPU each wait is a share of
the very step before it, busy on one core. On CUDA the host may run ahead, so that both are made to wait side by side:
the stream in a kernel that spins, the host in a loop, both for a share of the step's time on the device as the warm-
up showed it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any

from harness.spec import NoEffect, Param, Proof, Treatment

SPIN_KERNEL = "spin_kernel"
TRIES = 1000
MOST_OVERSHOOT = 3.0
"""A wait longer than this many times the one asked for is another treatment: the step is too short for it."""


def between(step: Callable[[], None], bench: Any, percent: float) -> Callable[[], None]:
    """step -> step and a wait."""
    on_device = str(bench.device).startswith("cuda")
    return _on_device(step, bench, percent / 100) if on_device else _on_host(step, bench, percent / 100)


def _on_host(step: Callable[[], None], bench: Any, share: float) -> Callable[[], None]:
    totals = bench.kept["slowdown"] = {"calls": 0, "step_ns": 0, "planted_ns": 0}
    return _waiting(step, totals, share, max(0, _cost(_waiting(_nothing, dict(totals), 0.0, 0)) - _cost(_nothing)))


def _nothing() -> None:
    pass


def _cost(call: Callable[[], None]) -> int:
    """What one call takes, in ns."""
    start = time.perf_counter_ns()
    for _ in range(TRIES):
        call()
    return (time.perf_counter_ns() - start) // TRIES


def _waiting(step: Callable[[], None], totals: dict[str, int], share: float, own_ns: int) -> Callable[[], None]:
    """step and a wait, of which `own_ns` is what looking at the clock and counting take anyway."""
    clock = time.perf_counter_ns
    waited = 0

    def slowed() -> None:
        nonlocal waited
        start = clock()
        step()
        end = now = clock()
        until = end + (end - start) * share - own_ns
        totals["calls"] += 1
        totals["step_ns"] += end - start
        totals["planted_ns"] += waited  # of the call before, so that counting lies within the wait
        while now < until:
            now = clock()
        waited = now - end + own_ns

    return slowed


def _on_device(step: Callable[[], None], bench: Any, share: float) -> Callable[[], None]:
    import torch

    totals = {"calls": 0, "step_ns": 0, "planted_ns": 0, "frozen": 0, "planted_per_step_ns": 0}
    bench.kept["slowdown"] = totals
    cycles_per_ns = _cycles_per_ns()
    pairs: deque[Any] = deque(maxlen=8)
    clock = time.perf_counter_ns

    def calibrate() -> None:
        times = [first.elapsed_time(last) * 1e6 for first, last in list(pairs)[1:] if last.query()]
        totals["planted_per_step_ns"] = int(share * median(times)) if len(times) > 1 else 0

    def slowed() -> None:
        measuring = not totals["frozen"] and not torch.cuda.is_current_stream_capturing()
        if measuring:
            calibrate()
            pairs.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
            pairs[-1][0].record()
        step()
        if measuring:
            pairs[-1][1].record()
        planted = totals["planted_per_step_ns"]
        torch.cuda._sleep(int(planted * cycles_per_ns))
        until = clock() + planted
        while clock() < until:
            pass
        totals["calls"] += 1
        totals["step_ns"] += int(planted / share)
        totals["planted_ns"] += planted

    return slowed


def _cycles_per_ns() -> float:
    """How fast the device's spin counts, by its own events."""
    import torch

    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1_000_000)
    first.record()
    torch.cuda._sleep(100_000_000)
    last.record()
    last.synchronize()
    return 100_000_000 / (first.elapsed_time(last) * 1e6)


def before(bench: Any, percent: float) -> dict[str, int] | None:
    """The totals at the end of the warm-up, after which nothing is calibrated any more."""
    totals = bench.kept.get("slowdown")
    if totals and "frozen" in totals:
        totals["frozen"] = 1
    return dict(totals) if totals else None


def after(bench: Any, snapshot: dict[str, int] | None, trace: Any, percent: float) -> dict[str, Any]:
    """The time waited since the warm-up is what was asked for, less a tenth at most.

    It may be more where the processor is taken away during a wait; the evidence says how long it was.
    """
    if not snapshot:
        raise NoEffect("nothing was planted")
    grown = {key: value - snapshot[key] for key, value in bench.kept["slowdown"].items() if key in snapshot}
    spins = [kernel.duration_ns for kernel in trace.kernels if SPIN_KERNEL in kernel.name] if trace else []
    planted = 100 * grown["planted_ns"] / max(1, grown["step_ns"])
    if not grown["calls"] or not 0.9 * percent <= planted <= MOST_OVERSHOOT * percent:
        found = f"{planted:.2f} % of the step was planted in {grown['calls']} steps, not {percent:g} %"
        raise NoEffect(f"{found}; is a step too short for it?")
    if "frozen" in snapshot and not spins:
        raise NoEffect("no spinning kernel in the profiled step")
    return {**grown, "planted_percent": planted, "spins_ns": spins}


TREATMENT = Treatment(
    name="slowdown",
    summary="a planted wait after every step, for checking the harness itself",
    sources=("https://docs.python.org/3/library/time.html#time.perf_counter_ns", "https://arxiv.org/abs/2011.01165"),
    params={"percent": Param(5.0, "share of the step's own time", kind="float", minimum=0.1, maximum=1000)},
    hooks={"between": between},
    proof=Proof(after=after, before=before),
    numerics=lambda traits: "identical",
    before=True,
)
