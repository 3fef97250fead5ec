"""The product of two square matrices in numpy: what the BLAS library behind numpy makes of it."""

from __future__ import annotations

from harness.spec import PlainBench, Workload
from harness.workloads.data import arrays


def plain(mode: str, seed: int, *, size: int, dtype: str) -> PlainBench:
    """Give the product of two random matrices [size, size]."""
    left, right = (arrays.random_matrix(seed + place, size, dtype) for place in range(2))
    return PlainBench(step=lambda: left @ right, items_per_step=1, facts=arrays.libraries)


WORKLOAD = Workload(
    name="numpy_dot",
    summary="numpy's matrix product, which is that of its BLAS library",
    sources=("https://numpy.org/doc/stable/reference/generated/numpy.matmul.html", "https://www.netlib.org/blas/"),
    unit="operations",
    traits=frozenset(),
    presets={
        "tiny": {"size": 128, "dtype": "float64"},
        "small": {"size": 1024, "dtype": "float64"},
        "full": {"size": 8192, "dtype": "float64"},
    },
    modes=arrays.MODES,
    inputs=arrays.INPUTS,
    devices=("cpu",),
    packages=("numpy",),
    plain=plain,
)
