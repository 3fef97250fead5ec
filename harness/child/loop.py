"""The timed region: a closure and a clock. Imports no torch; nothing here may branch, log or allocate per step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def run_window(
    step: Callable[[], Any],
    step_count: int,
    synchronise: Callable[[], None],
    clock: Callable[[], int] = time.perf_counter_ns,
) -> tuple[int, int]:
    """Run `step_count` steps and synchronise once; return (issued_ns, total_ns), both from the start.

    The device must be synchronised already when this is called.
    """
    repeat = range(step_count)
    start = clock()
    for _ in repeat:
        step()
    issued = clock()
    synchronise()
    return issued - start, clock() - start
