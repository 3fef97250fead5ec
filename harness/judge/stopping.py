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

from harness.judge.estimate import Estimate, Floats, t_quantile

LOOKS = (4, 6, 9, 13, 19, 28)
"""Numbers of complete blocks at which a comparison may be decided."""
LOOK_ALPHAS = (0.0064, 0.0051, 0.0071, 0.0099, 0.0150, 0.0228)
"""Two-sided levels at these looks, for 5 % in all."""
FEWEST_BLOCKS = LOOKS[0]
POWER = 0.8
"""Power at which the minimal detectable effect is stated."""
MOST_BLOCKS_FORETOLD = 100_000


@dataclass(frozen=True)
class Look:
    """What may be said at a number of blocks: the level of the interval, and whether it may decide."""

    alpha: float
    decides: bool
    last: bool
    next_look: int | None = None


def schedule(alpha: float = 0.05, min_blocks: int = FEWEST_BLOCKS, max_blocks: int = LOOKS[-1]) -> dict[int, float]:
    """Number of blocks -> level, for one comparison whose error over all looks is to be alpha.

    A maximum that is no standard look becomes the last one and is given what the earlier looks leave of alpha (a union
    bound, so never too much). Beyond 28 blocks the standard looks get half of alpha and the maximum the other half.
    """
    fewest, most = max(min_blocks, FEWEST_BLOCKS), max(max_blocks, min_blocks, FEWEST_BLOCKS)
    scale = alpha / 0.05 * (0.5 if most > LOOKS[-1] else 1.0)
    levels = {blocks: level * scale for blocks, level in zip(LOOKS, LOOK_ALPHAS, strict=True) if fewest <= blocks <= most}
    earlier = sum(level for blocks, level in levels.items() if blocks < most)
    following = next((level * scale for blocks, level in zip(LOOKS, LOOK_ALPHAS, strict=True) if blocks >= most), 0.0)
    levels[most] = max(alpha - earlier, levels.get(most, 0.0), following)
    return levels


def look_at(
    blocks: int, levels: dict[int, float], alpha: float, last_look: bool = False, earlier_ends: Sequence[int] = ()
) -> Look:
    """What may be decided with this many complete blocks.

    `levels` is the schedule. Where the budget ends between two looks, half of what the earlier looks have left of alpha is
    spent there and the other half kept for going on; `earlier_ends` are the numbers of blocks at which earlier sessions
    ended like that, and each halves what comes after it.
    """
    share = 0.5 ** sum(1 for end in earlier_ends if end < blocks)
    most = max(levels)
    upcoming = next((look for look in sorted(levels) if look > blocks), None)
    if blocks >= most:
        return Look(levels[most] * share, True, True)
    if blocks in levels:
        return Look(levels[blocks] * share, True, last_look, upcoming)
    if last_look and blocks >= min(levels):
        left = (alpha - sum(level for look, level in levels.items() if look < blocks)) / 2
        following = levels[upcoming] if upcoming in LOOKS and upcoming is not None else 0.0
        return Look(max(left, following) * share, True, True, upcoming)
    assert upcoming is not None
    return Look(levels[upcoming] * share, False, last_look, upcoming)


# ------------------------------------------------------------------------------------------------ looking ahead


def minimal_detectable_effect(of: Estimate, alpha: ArrayLike, power: float = POWER) -> Floats:
    """The relative change that this many blocks with this spread find with the given power: (t_alpha/2 + t_power) s / sqrt(B)."""
    return np.expm1((t_quantile(of.freedom, alpha) + stdtrit(of.freedom, power)) * of.error)


def half_width_at(spread: float, blocks: int, levels: dict[int, float], share: float) -> float:
    """Expected half-width of the deciding interval at a look further on."""
    level = levels.get(blocks) or levels[max(look for look in levels if look <= blocks)]
    freedom = blocks - (2 if blocks >= 6 else 1)
    return float(t_quantile(freedom, level * share)) * spread / math.sqrt(blocks)


def blocks_needed(center: float, spread: float, rope: float, levels: dict[int, float], share: float) -> int | None:
    """Blocks at which the expected interval decides, if center and spread stay as they are; None beyond any reason.

    The interval must shrink until it excludes 0 or fits into the region of practical equivalence, whichever is sooner.
    `rope` is its half-width on the log scale; `share` the part of each look's level that this comparison has.
    """
    needed = max(abs(center), rope - abs(center))
    blocks = min(levels)
    while blocks <= MOST_BLOCKS_FORETOLD:
        if half_width_at(spread, blocks, levels, share) <= needed:
            return blocks
        later = [look for look in sorted(levels) if look > blocks]
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
