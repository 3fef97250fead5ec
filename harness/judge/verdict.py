"""From an interval to a word, in the order in which verdicts are evaluated."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.judge.types import Word
from harness.metrics import Metric

UNDECIDED, EQUIVALENT, ABOVE, BELOW = 0, 2, 1, -1


def decide(low: ArrayLike, high: ArrayLike, rope: float) -> NDArray[np.int8]:
    """What intervals of the log difference say: EQUIVALENT inside the region of practical equivalence, ABOVE or BELOW
    0.

    `rope` is its half-width on the log scale. Equivalence comes first: a difference known to be smaller than what
    matters is "equivalent", with its sign in the words beside it.
    """
    low, high = np.asarray(low), np.asarray(high)
    inside = (low > -rope) & (high < rope)
    code = np.where(inside, EQUIVALENT, np.where(low > 0, ABOVE, np.where(high < 0, BELOW, UNDECIDED)))
    return code.astype(np.int8)


def log_rope(rope: float) -> float:
    """The region's half-width on the log scale, the same both ways: +-1 % is a factor of 1.01 up or down."""
    return float(np.log1p(rope))


def word_for(code: int, metric: Metric) -> Word:
    """The verdict word of a decision about log(after / before)."""
    if code == UNDECIDED:
        return Word.INCONCLUSIVE
    if code == EQUIVALENT:
        return Word.EQUIVALENT
    if metric.unit == "ns":
        return Word.SLOWER if code == ABOVE else Word.FASTER
    if metric.unit == "items/s":
        return Word.FASTER if code == ABOVE else Word.SLOWER
    return Word.HIGHER if code == ABOVE else Word.LOWER
