"""What the timed loop adds to a step: the harness's window against a bare `for` loop around the same closure.

Both run in this process, window by window in random order. The limit is one microsecond a step.
Run: `python benchmarks/overhead.py [--windows 200] [--steps 10000]`; exit code 4 where the limit is exceeded.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from harness.child.loop import run_window
from harness.child.rig import nothing

LIMIT_NS = 1000.0


def main() -> int:
    """Print nanoseconds a step for both loops, and what the harness adds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=200)
    parser.add_argument("--steps", type=int, default=10_000)
    asked = parser.parse_args()
    bare_ns, harness_ns = compare(nothing, asked.windows, asked.steps)
    added_ns = harness_ns - bare_ns
    print(f"bare loop      {bare_ns:8.2f} ns a step")
    print(f"harness window {harness_ns:8.2f} ns a step")
    print(f"added          {added_ns:8.2f} ns a step; at most {LIMIT_NS:.0f} are allowed")
    return 0 if added_ns <= LIMIT_NS else 4


def compare(step: Callable[[], Any], windows: int, steps: int) -> tuple[float, float]:
    """Median nanoseconds a step: in the bare loop, and in the harness's window."""
    times: dict[Callable[[Callable[[], Any], int], int], list[int]] = {bare_loop: [], harness_window: []}
    for _ in range(windows):
        for loop in random.sample(list(times), k=2):
            times[loop].append(loop(step, steps))
    return median(times[bare_loop]) / steps, median(times[harness_window]) / steps


def bare_loop(step: Callable[[], Any], steps: int) -> int:
    """What anyone would write."""
    start = time.perf_counter_ns()
    for _ in range(steps):
        step()
    return time.perf_counter_ns() - start


def harness_window(step: Callable[[], Any], steps: int) -> int:
    """What the child runs."""
    return run_window(step, steps, nothing)[1]


if __name__ == "__main__":
    sys.exit(main())
