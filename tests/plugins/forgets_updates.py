"""A treatment that would look fast: it leaves out every second optimizer step and says that it was done."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from harness.spec import Bench, NoEffect, Proof, Trace, Treatment


def every_second(apply: Callable[[], bool], bench: Bench) -> Callable[[], bool]:
    turns = itertools.cycle((False, True))
    bench.facts["forgets"] = True
    return lambda: next(turns) or apply()


def after(bench: Bench, snapshot: Any, trace: Trace) -> dict[str, Any]:
    if "forgets" not in bench.facts:
        raise NoEffect("every update is made")
    return {}


TREATMENT = Treatment(
    name="forgets_updates",
    summary="leaves out every second update",
    sources=("https://example.org",),
    proof=Proof(after=after),
    hooks={"update.apply": every_second},
)
