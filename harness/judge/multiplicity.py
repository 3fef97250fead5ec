"""Many comparisons at once: the primary family by Holm's step-down over sequential levels, the rest by
Benjamini-Hochberg.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.judge.estimate import Floats

FALSE_DISCOVERY_RATE = 0.10
"""For secondary metrics, which are exploratory."""


def shares(stage_p: ArrayLike, alpha: float, size: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Which comparisons of a family are claimed as different, and the share of its level each of the family gets.

    `stage_p` has shape (..., comparisons): each p-value on the scale of its whole sequence of looks
    (`stopping.sequence_p`), NaN where it may not be decided now; `size` is the declared size of the family. A claim
    hands its share on to the others, as in Holm's procedure; over sequential boundaries that are proportional to the
    level this keeps the family's error (Maurer & Bretz 2013). Returns (shares, claimed).
    """
    p = np.asarray(stage_p, dtype=np.float64)
    claimed = np.zeros(p.shape, dtype=bool)
    share = np.full(p.shape, 1.0 / size)
    while True:
        left = np.maximum(size - claimed.sum(axis=-1, keepdims=True), 1)
        share = np.where(claimed, share, 1.0 / left)
        fresh = ~claimed & (p <= alpha * share)
        if not fresh.any():
            return share, claimed
        claimed |= fresh


def holm(p: ArrayLike, size: int) -> Floats:
    """Holm-adjusted p-values of a family of `size` (Holm 1979), of which those not given, and NaN, are counted as 1."""
    values = np.asarray(p, dtype=np.float64)
    filled = np.where(np.isnan(values), np.inf, values)
    rank = np.argsort(filled, kind="stable")
    factors = np.maximum(size - np.arange(len(values)), 1)
    stepped = np.maximum.accumulate(filled[rank] * factors)
    adjusted = np.empty(len(values))
    adjusted[rank] = np.minimum(stepped, 1.0)
    return np.where(np.isnan(values), np.nan, adjusted)


def benjamini_hochberg(p: ArrayLike) -> Floats:
    """Adjusted p-values for the false discovery rate (Benjamini & Hochberg 1995); NaN stays NaN and is not counted."""
    values = np.asarray(p, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(values))
    adjusted = np.full(len(values), np.nan)
    rank = known[np.argsort(values[known], kind="stable")]
    factors = len(known) / np.arange(1, len(known) + 1)
    adjusted[rank] = np.minimum(np.minimum.accumulate((values[rank] * factors)[::-1])[::-1], 1.0)
    return adjusted
