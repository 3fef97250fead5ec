"""What the numerical workloads without torch share: random matrices, and which library computes on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.spec import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODES = ("train", "infer")
INPUTS = ("loader", "resident")
"""Neither means anything here: whatever an experiment says is right."""
DTYPES = ("float32", "float64")


def random_matrix(seed: int, size: int, dtype: str) -> NDArray[Any]:
    """Normal numbers [size, size], the same for the same seed."""
    import numpy as np

    if dtype not in DTYPES or size < 1:
        raise UsageError(f"size={size}, dtype={dtype}: give a size of 1 or more, and one of {', '.join(DTYPES)}")
    return np.random.default_rng(seed).standard_normal((size, size)).astype(dtype)


def libraries() -> dict[str, Any]:
    """The versions, and the BLAS and LAPACK libraries that are mapped into this process, with their threads."""
    import numpy as np
    import threadpoolctl

    pools = threadpoolctl.threadpool_info()
    return {
        "numpy.version": np.__version__,
        "blas": [
            {key: pool.get(key) for key in ("internal_api", "version", "num_threads", "filepath")}
            for pool in pools
            if pool.get("user_api") == "blas"
        ],
    }
