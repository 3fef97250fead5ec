"""Loads the allocator tcmalloc in place of the C library's, for every allocation of the process.

Helps programs whose threads allocate and free all the time (loading, decoding, eager operators on a CPU): fewer
locks, and freed memory is kept for the next request. Uses more memory as a rule, and leaves the GPU's allocator as it
is.
"""

from __future__ import annotations

from harness.spec import Requires, Treatment
from harness.treatments._preloading import preload, proof_of

LIBRARIES = ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4")
"""Without its heap profiler, and with it."""

TREATMENT = Treatment(
    name="tcmalloc",
    summary="the allocator tcmalloc for all host memory",
    sources=(
        "https://google.github.io/tcmalloc/",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    requires=Requires(libraries=(LIBRARIES,)),
    hooks={"process": preload(*LIBRARIES)},
    proof=proof_of("tcmalloc"),
    occupies=("malloc",),
    changes=("malloc",),
    addresses=("host", "memory"),
    numerics=lambda traits: "identical",
)
