"""Eigenvalues and eigenvectors of a general matrix in scipy: what the LAPACK library behind scipy makes of it."""

from __future__ import annotations

from harness.spec import PlainBench, Workload
from harness.workloads.data import arrays


def plain(mode: str, seed: int, *, size: int, dtype: str) -> PlainBench:
    """Give the decomposition of a random matrix [size, size]."""
    from scipy import linalg

    matrix = arrays.random_matrix(seed, size, dtype)
    return PlainBench(step=lambda: linalg.eig(matrix), items_per_step=1, facts=arrays.libraries)


WORKLOAD = Workload(
    name="scipy_eig",
    summary="scipy's eigenvalues and eigenvectors of a general matrix, by its LAPACK library",
    sources=("https://docs.scipy.org/doc/scipy/reference/generated/scipy.linalg.eig.html",),
    unit="operations",
    traits=frozenset(),
    presets={
        "tiny": {"size": 48, "dtype": "float64"},
        "small": {"size": 256, "dtype": "float64"},
        "full": {"size": 2048, "dtype": "float64"},
    },
    modes=arrays.MODES,
    inputs=arrays.INPUTS,
    devices=("cpu",),
    packages=("numpy", "scipy"),
    plain=plain,
)
