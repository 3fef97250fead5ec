"""From block differences to an estimate: arrays in, arrays out, the same code for one contrast and for a simulated
million.

Every function takes block differences along the last axis, on the log scale: d = log(after) - log(before), one a
block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]

ORDER_FROM = 6
"""From this many blocks on the order covariate is fitted; below, it would cost a degree of freedom that is missed."""


@dataclass(frozen=True)
class Estimate:
    """Mean block difference with its standard error and degrees of freedom; arrays over contrasts, or scalars of
    shape ().
    """

    center: Floats
    error: Floats
    freedom: Floats
    spread: Floats
    """Standard deviation of a block difference, order effect removed."""
    order_effect: Floats
    """How much more d is in blocks where the treated arm ran late than in those where it ran early; NaN if not
    fitted.
    """
    order_error: Floats
    blocks: int


def estimate(differences: ArrayLike, order: ArrayLike) -> Estimate:
    """Least squares of d on 1 and z (from `ORDER_FROM` blocks on, where both orders occur twice), on 1 alone
    otherwise.

    `differences` and `order` have shape (..., blocks), at least 2 blocks; order is +1 where the treated arm ran after
    the baseline's mean position, -1 before, 0 for neither. Blocks are summed in an order that depends neither on
    their labels nor on which arm is called treated, so that relabelling and swapping change no bit.
    """
    d, z = _in_canonical_order(np.asarray(differences, dtype=np.float64), np.asarray(order, dtype=np.float64))
    blocks = d.shape[-1]
    mean_d, mean_z = d.mean(axis=-1), z.mean(axis=-1)
    from_mean_d, from_mean_z = d - mean_d[..., None], z - mean_z[..., None]
    spread_z = np.sum(from_mean_z**2, axis=-1)
    both = (np.sum(z > 0, axis=-1) >= 2) & (np.sum(z < 0, axis=-1) >= 2) & (blocks >= ORDER_FROM)
    safe = np.where(both, spread_z, 1.0)
    slope = np.where(both, np.sum(from_mean_z * from_mean_d, axis=-1) / safe, 0.0)
    residual = from_mean_d - slope[..., None] * from_mean_z
    freedom = np.where(both, blocks - 2.0, blocks - 1.0)
    spread = np.sqrt(np.sum(residual**2, axis=-1) / freedom)
    leverage = 1 / blocks + np.where(both, mean_z**2 / safe, 0.0)
    return Estimate(
        center=mean_d - slope * mean_z,
        error=spread * np.sqrt(leverage),
        freedom=freedom,
        spread=spread,
        order_effect=np.where(both, 2 * slope, np.nan),
        order_error=np.where(both, 2 * spread / np.sqrt(safe), np.nan),
        blocks=blocks,
    )


def _in_canonical_order(d: Floats, z: Floats) -> tuple[Floats, Floats]:
    rank = np.lexsort((d * z, np.abs(d)), axis=-1)
    return np.take_along_axis(d, rank, -1), np.take_along_axis(z, rank, -1)


def t_quantile(freedom: ArrayLike, alpha: ArrayLike) -> Floats:
    """Two-sided Student's t critical value at level alpha."""
    return np.asarray(-stdtrit(freedom, np.asarray(alpha) / 2))


def half_width(of: Estimate, alpha: ArrayLike) -> Floats:
    """Half of the t interval at level 1 - alpha."""
    return np.asarray(t_quantile(of.freedom, alpha) * of.error)


def p_value(of: Estimate, against: float = 0.0) -> Floats:
    """Two-sided p of the t test that the mean difference is `against`; without any spread it is 1 (equal) or 0."""
    distance = np.abs(of.center - against)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(of.error > 0, distance / of.error, np.where(distance > 0, np.inf, 0.0))
    return np.asarray(2 * stdtr(of.freedom, -ratio))


# ------------------------------------------------------------------------------------------------ Hodges-Lehmann


@dataclass(frozen=True)
class SignedRank:
    """Hodges-Lehmann estimate with the exact signed-rank interval (Hollander & Wolfe 1999, 3.2-3.3)."""

    center: float
    low: float
    high: float


def signed_rank(differences: ArrayLike, alpha: float) -> SignedRank | None:
    """The rank-based companion of the t interval; None where no interval exists at this level (2^(1-B) > alpha)."""
    d = np.asarray(differences, dtype=np.float64)
    rank = _signed_rank_cut(len(d), alpha)
    if rank is None:
        return None
    upper = np.triu_indices(len(d))
    averages = np.sort((d[upper[0]] + d[upper[1]]) / 2)
    return SignedRank(float(np.median(averages)), float(averages[rank]), float(averages[-1 - rank]))


@lru_cache(maxsize=4096)
def _signed_rank_cut(blocks: int, alpha: float) -> int | None:
    """How many Walsh averages to leave out at each end: the largest c with 2 P(W < c) <= alpha, c >= 1; returns c -
    1.
    """
    counts = np.zeros(blocks * (blocks + 1) // 2 + 1)
    counts[0] = 1.0
    for rank in range(1, blocks + 1):
        counts[rank:] += counts[:-rank].copy()
    below = np.cumsum(counts) / 2.0**blocks
    cut = int(np.searchsorted(2 * below, alpha, side="right"))
    return cut - 1 if cut >= 1 else None
