"""Whether an effect is the same on several classes of hardware. Only ratios cross between machines, never absolutes."""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.judge.types import Comparison


class Agreement(enum.StrEnum):
    """What can be said of one effect on several classes of hardware."""

    CONSISTENT = "consistent"
    DIFFERS = "differs"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Effect:
    """The logarithm of a speedup on one class of hardware, with the half-width of its interval."""

    center: float
    half: float


def agreement(comparisons: Sequence[Comparison], rope: float) -> tuple[Agreement, str]:
    """The label of the same comparison on several classes of hardware, and a sentence why.

    Two classes differ where the difference of their log-speedups lies beyond the root of the sum of their squared
    half-widths (at the levels that decided). They are consistent where no two differ and all lie on one side of 1, or
    all within the region of practical equivalence.
    """
    effects = [effect for each in comparisons if (effect := _effect(each)) is not None]
    if len(effects) < 2:
        return Agreement.CANNOT_TELL, "fewer than two classes of hardware have an interval"
    apart = max(abs(one.center - two.center) - math.hypot(one.half, two.half) for one, two in _pairs(effects))
    if apart > 0:
        return Agreement.DIFFERS, "the intervals of two classes exclude that their effects are equal"
    near = math.log1p(rope)
    if all(abs(each.center) + each.half < near for each in effects):
        return Agreement.CONSISTENT, f"on every class any effect is smaller than {rope:.3g}"
    sides = {_side(each) for each in effects}
    if len(sides) == 1 and 0 not in sides:
        return Agreement.CONSISTENT, "every interval lies on the same side of 1, and none excludes another's effect"
    return Agreement.CANNOT_TELL, "an interval holds effects either way"


def _effect(comparison: Comparison) -> Effect | None:
    low, high = comparison.ci_low, comparison.ci_high
    if low is None or high is None or not 0 < low <= high < math.inf:
        return None
    return Effect((math.log(high) + math.log(low)) / 2, (math.log(high) - math.log(low)) / 2)


def _side(effect: Effect) -> int:
    return 1 if effect.center > effect.half else -1 if effect.center < -effect.half else 0


def _pairs(effects: Sequence[Effect]) -> Sequence[tuple[Effect, Effect]]:
    return list(itertools.combinations(effects, 2))
