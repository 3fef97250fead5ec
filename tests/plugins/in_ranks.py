"""A treatment that runs the workload in several ranks that have nothing to do with one another."""

from __future__ import annotations

from typing import Any

from harness.spec import Bench, NoEffect, Param, Proof, Trace, Treatment


def in_ranks(bench: Bench, snapshot: Any, trace: Trace, count: int) -> dict[str, Any]:
    if bench.rank_count != count:
        raise NoEffect(f"{bench.rank_count} ranks")
    return {"ranks": bench.rank_count}


TREATMENT = Treatment(
    name="in_ranks",
    summary="runs it in several ranks",
    sources=("https://example.org",),
    params={"count": Param(2, "how many", kind="int", minimum=1)},
    proof=Proof(after=in_ranks),
    hooks={"process": lambda change, machine, count: change.with_ranks(count)},
)
