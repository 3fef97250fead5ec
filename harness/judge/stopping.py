"""When a comparison may be decided, and at which level: group-sequential looks, the end of a budget, open-ended runs.

The constants come from simulation of t statistics at these numbers of blocks (the Brownian ones give 5.5 % there; these
are 0.88 times as large); `selftest` shows what they reach.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from harness.judge.estimate import ORDER_FROM, Estimate, Floats, t_quantile

LOOKS = (4, 6, 9, 13, 19, 28)
"""Numbers of complete blocks at which a comparison may be decided."""
LOOK_ALPHAS = (0.0064, 0.0051, 0.0071, 0.0099, 0.0150, 0.0228)
"""Two-sided levels at these looks, for 5 % in all."""
FEWEST_BLOCKS = LOOKS[0]
POWER = 0.8
"""Power at which the minimal detectable effect is stated."""
MOST_BLOCKS_FORETOLD = 100_000


SMALL_ALPHAS = (0.000125, 0.0005, 0.001, 0.0025, 0.005, 0.0167, 0.05)
SPENT = (1.24, 1.22, 1.19, 1.14, 1.11, 1.05, 1.0)
"""At levels of alpha divided by many comparisons the looks are less correlated where it matters, and the same constants
spend this much more than they should (12 million simulated sequences); they are made smaller by as much."""


@dataclass(frozen=True)
class Look:
    """What may be said at a number of blocks: how much of alpha is spent there, and whether it may decide."""

    weight: float
    """Level of this look over the whole sequence's alpha."""
    decides: bool
    last: bool
    next_look: int | None = None

    def level(self, alpha: float) -> float:
        """Level of the interval at this look, for a comparison whose error over all looks is to be alpha."""
        return float(level(self.weight, alpha))


def schedule(min_blocks: int = FEWEST_BLOCKS, max_blocks: int = LOOKS[-1]) -> dict[int, float]:
    """Number of blocks -> weight of the look there (its level over alpha).

    A maximum that is no standard look becomes the last one and is given what the earlier looks leave of alpha (a union
    bound, so never too much). Beyond 28 blocks the standard looks get half of alpha and the maximum the other half.
    """
    fewest, most = max(min_blocks, FEWEST_BLOCKS), max(max_blocks, min_blocks, FEWEST_BLOCKS)
    scale = (0.5 if most > LOOKS[-1] else 1.0) / 0.05
    standard = {blocks: alpha * scale for blocks, alpha in zip(LOOKS, LOOK_ALPHAS, strict=True)}
    weights = {blocks: weight for blocks, weight in standard.items() if fewest <= blocks < most}
    following = next((weight for blocks, weight in standard.items() if blocks >= most), 0.0)
    weights[most] = max(1 - sum(weights.values()), following)
    return weights


def look_at(blocks: int, weights: dict[int, float], last_look: bool = False, earlier_ends: Sequence[int] = ()) -> Look:
    """What may be decided with this many complete blocks.

    `weights` is the schedule. Where the budget ends between two looks, half of what the earlier looks have left of
    alpha is spent there and the other half kept for going on; `earlier_ends` are the numbers of blocks at which
    earlier sessions ended, and each that was no look of the schedule halves what comes after it.
    """
    share = 0.5 ** sum(1 for end in earlier_ends if min(weights) <= end < blocks and end not in weights)
    most = max(weights)
    upcoming = next((look for look in sorted(weights) if look > blocks), None)
    if upcoming is None:
        return Look(weights[most] * share, True, True)
    if blocks in weights:
        return Look(weights[blocks] * share, True, last_look, upcoming)
    if last_look and blocks >= min(weights):
        left = (1 - sum(weight for look, weight in weights.items() if look < blocks)) / 2
        following = weights[upcoming] if upcoming < most else 0.0
        return Look(max(left, following) * share, True, True, upcoming)
    return Look(weights[upcoming] * share, False, last_look, upcoming)


def level(weight: ArrayLike, alpha: ArrayLike) -> Floats:
    """Level of a look with this weight, for a sequence of looks at alpha."""
    alpha = np.asarray(alpha, dtype=np.float64)
    return np.asarray(np.asarray(weight) * alpha / np.interp(np.log(alpha), np.log(SMALL_ALPHAS), SPENT))


def sequence_p(p: ArrayLike, weight: ArrayLike) -> Floats:
    """The alpha at which a sequence would have claimed this p at this look: the inverse of `level`, at most 1."""
    target = np.asarray(p, dtype=np.float64) / np.asarray(weight)
    knots = np.array([*np.geomspace(1e-12, 0.05, 400), 1.0])
    return np.asarray(np.interp(target, level(1.0, knots), knots))


# ------------------------------------------------------------------------------------------------ looking ahead


def minimal_detectable_effect(of: Estimate, alpha: ArrayLike, power: float = POWER) -> Floats:
    """The relative change that this many blocks with this spread find with the given power: (t_alpha/2 + t_power) s /
    sqrt(B).
    """
    return np.asarray(np.expm1((t_quantile(of.freedom, alpha) + stdtrit(of.freedom, power)) * of.error))


def half_width_at(spread: float, blocks: int, weights: dict[int, float], alpha: float) -> float:
    """Expected half-width of the deciding interval at a look further on."""
    weight = weights[max(look for look in weights if look <= blocks)]
    freedom = blocks - (2 if blocks >= ORDER_FROM else 1)
    return float(t_quantile(freedom, level(weight, alpha))) * spread / math.sqrt(blocks)


def blocks_needed(center: float, spread: float, rope: float, weights: dict[int, float], alpha: float) -> int | None:
    """Blocks at which the expected interval decides, if center and spread stay as they are; None beyond any reason.

    The interval must shrink until it excludes 0 or fits into the region of practical equivalence, whichever is sooner.
    `rope` is its half-width on the log scale; `alpha` this comparison's share of the family's.
    """
    needed = max(abs(center), rope - abs(center))
    blocks = min(weights)
    while blocks <= MOST_BLOCKS_FORETOLD:
        if half_width_at(spread, blocks, weights, alpha) <= needed:
            return blocks
        later = [look for look in sorted(weights) if look > blocks]
        blocks = later[0] if later else math.ceil(blocks * 1.1)
    return None


# ------------------------------------------------------------------------------------------------ open-ended


def anytime_half_width(spread: ArrayLike, blocks: ArrayLike, alpha: ArrayLike, g: float = 1.0) -> Floats:
    """Half-width that holds at every number of blocks at once: the anytime-valid t interval of a Gaussian mixture.

    s sqrt((n-1)/n (r-1)(1+ng)/(1+ng-r)), r = (sqrt(1+ng)/alpha)^(2/n) (Wang & Ramdas 2025 after Lai 1976); infinite
    until r < 1 + ng. `spread` is the sd with divisor n-1, without order covariate.
    """
    n, s = np.asarray(blocks, dtype=np.float64), np.asarray(spread, dtype=np.float64)
    r = (np.sqrt(1 + n * g) / np.asarray(alpha)) ** (2 / n)
    room = 1 + n * g - r
    with np.errstate(divide="ignore", invalid="ignore"):
        width = s * np.sqrt((n - 1) / n * (r - 1) * (1 + n * g) / room)
    return np.where(room > 0, width, np.inf)
