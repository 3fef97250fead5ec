"""Loads the allocator jemalloc in place of the C library's, for every allocation of the process.

Helps programs whose threads allocate and free all the time (loading, decoding, eager operators on a CPU): fewer
locks, and freed memory is kept for the next request. Uses more memory as a rule, and leaves the GPU's allocator as it
is.
"""

from __future__ import annotations

from harness.spec import Requires, Treatment
from harness.treatments._preloading import preload, proof_of

LIBRARY = "libjemalloc.so.2"

TREATMENT = Treatment(
    name="jemalloc",
    summary="the allocator jemalloc for all host memory",
    sources=(
        "https://jemalloc.net/",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    requires=Requires(libraries=(LIBRARY,)),
    hooks={"process": preload(LIBRARY)},
    proof=proof_of("jemalloc"),
    occupies=("malloc",),
    changes=("malloc",),
    addresses=("host", "memory"),
    numerics=lambda traits: "identical",
)
