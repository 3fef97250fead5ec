"""Loads the allocator jemalloc in place of the C library's, for every allocation of the process.

Helps programs whose threads allocate and free all the time (loading, decoding, eager operators on a CPU): fewer
locks, and freed memory is kept for the next request. Uses more memory as a rule, and leaves the GPU's allocator as it
is.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Proof, Requires, Treatment

LIBRARY = "libjemalloc.so.2"


def process(change: Any, machine: Any) -> Any:
    """Have the dynamic loader put it before all other libraries."""
    return change.with_env("LD_PRELOAD", LIBRARY)


def proof(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
    """The library is mapped into this process."""
    mapped = [path for path in bench.mapped_libraries() if "jemalloc" in path]
    if not mapped:
        raise NoEffect("no library of this name is mapped into the process")
    return {"library": mapped[0].rpartition("/")[2]}


TREATMENT = Treatment(
    name="jemalloc",
    summary="the allocator jemalloc for all host memory",
    sources=(
        "https://jemalloc.net/",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    requires=Requires(libraries=(LIBRARY,)),
    hooks={"process": process},
    proof=Proof(after=proof),
    occupies=("malloc",),
    changes=("malloc",),
    addresses=("host", "memory"),
    numerics=lambda traits: "identical",
)
