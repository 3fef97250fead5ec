"""What the measuring code needs of a trial that is set up, with or without torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.spec import Bench, Trace


@dataclass
class Counters:
    """Work counted inside the steps; read outside the timed windows."""

    data_wait_ns: int = 0
    steps_performed: int = 0
    steps_skipped: int = 0


def nothing() -> None:
    """Do nothing: the synchronisation of a device that has none, a reset with nothing to reset."""


@dataclass(frozen=True)
class Epochs:
    """Whole passes over the data, each from a fresh iterator to its end: what persistent workers and caches are about.

    While it is open there is no other iterator, and no worker of one.
    """

    run: Callable[[], Any]
    """One pass: every step of it."""
    steps: int
    """Of one pass, as counted in a pass that is not timed."""
    items_per_step: float
    """Mean over that pass, over all ranks."""
    close: Callable[[], None]
    """Go back to single steps."""


@dataclass
class Rig:
    """One assembled trial: the composed step, and the functions around it that differ by side and device."""

    bench: Bench
    step: Callable[[], Any]
    """One complete step of the arm; its result (the loss, if any) is dropped."""
    items_per_step: Callable[[], float]
    """Units of work in a step of this rank, known after the first step."""
    agree: Callable[[float], float] = float
    """The largest of the ranks' values, so that all take the same steps; they wait for one another here."""
    counters: Counters = field(default_factory=Counters)
    waits_for_data: bool = False
    counts_steps: bool = False
    """Whether `counters.steps_performed` is kept; without an optimizer a step called is a step done."""
    synchronise: Callable[[], None] = nothing
    restore: Callable[[], None] = nothing
    """Put parameters, buffers, optimizer and random state and the data position back to before warm-up."""
    loss: Callable[[], float | None] = lambda: None
    """Loss of the latest step; waits for the device."""
    mark_device: Callable[[], Callable[[], int | None]] = lambda: lambda: None
    """Called before a window; what it returns is called after it and gives the device's elapsed time in ns."""
    reset_peaks: Callable[[], None] = nothing
    peaks: Callable[[], dict[str, int | None]] = dict
    """peak_allocated_bytes, peak_reserved_bytes, peak_device_bytes since `reset_peaks`."""
    reserved_bytes: Callable[[], int | None] = lambda: None
    compile_count: Callable[[], int | None] = lambda: None
    compile_ns: Callable[[], int | None] = lambda: None
    forbid_recompiles: Callable[[], None] = nothing
    profile: Callable[[], Trace | None] = lambda: None
    """Run one more step under the profiler."""
    step_kind: str = "call"
    """What a step is: train, infer, load or call."""
    epochs: Callable[[], Epochs] | None = None
    """Opens whole passes over the data; None where there is no loader to pass over."""
    afterwards: Callable[[], tuple[dict[str, Any], dict[str, str]]] = lambda: ({}, {})
    """Measure what is no step time: columns of the record, and why some could not be had, by what was tried."""
    facts: Callable[[], dict[str, Any]] = dict
    close: Callable[[], None] = nothing
