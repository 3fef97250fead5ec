"""A two-dimensional Fourier transform in numpy, whose own library (pocketfft) does it whatever the BLAS is."""

from __future__ import annotations

from harness.spec import PlainBench, Workload
from harness.workloads.data import arrays


def plain(mode: str, seed: int, *, size: int, dtype: str) -> PlainBench:
    """Give the transform of a random array [size, size]."""
    import numpy as np

    values = arrays.random_matrix(seed, size, dtype)
    return PlainBench(step=lambda: np.fft.fft2(values), items_per_step=1, facts=arrays.libraries)


WORKLOAD = Workload(
    name="numpy_fft",
    summary="numpy's two-dimensional Fourier transform",
    sources=("https://numpy.org/doc/stable/reference/routines.fft.html",),
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
