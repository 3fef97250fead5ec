"""Experimental designs: which arms a list of treatments becomes, and what the factors' effects then are.

One-at-a-time designs compare arms with the baseline and need nothing more. In factorial ones every run says something
about every factor, which is why 16 runs estimate a main effect with a fraction of the variance of single comparisons
(Box, Hunter & Hunter 2005, chapters 5-7).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from harness.judge.estimate import Floats, estimate, half_width, p_value, t_quantile
from harness.spec import UsageError

FACTORIAL = frozenset({"factorial", "fractional", "plackett_burman"})
"""Designs whose factors are fitted; their arms stop together, since each says something about every factor."""
MOST_FACTORS = {"factorial": 6, "fractional": 12, "plackett_burman": 23}
UNEQUAL_VARIANCES_P = 0.01
"""Below this p of Bartlett's test the arms' variances are not pooled."""


# ------------------------------------------------------------------------------------------------ arms of a design


def design_arms(design: str, treatments: Sequence[str]) -> list[str]:
    """The arms of a design, as texts in the arm grammar, the empty baseline left out; each once."""
    if design not in DESIGNS:
        raise UsageError(f"design '{design}' is unknown; it is one of arms, {', '.join(DESIGNS)}")
    if not treatments:
        raise UsageError(f"design '{design}' needs treatments = [...] in the experiment; it has none")
    if len(treatments) > MOST_FACTORS.get(design, len(treatments)):
        raise UsageError(f"design '{design}' takes at most {MOST_FACTORS[design]} treatments, not {len(treatments)}")
    chosen = DESIGNS[design](treatments)
    return list(dict.fromkeys("+".join(each) for each in chosen if each))


def _one_at_a_time(treatments: Sequence[str]) -> list[tuple[str, ...]]:
    return [(each,) for each in treatments]


def _ladder(treatments: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(treatments[: count + 1]) for count in range(len(treatments))]


def _leave_one_out(treatments: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(treatments), *(tuple(other for other in treatments if other != each) for each in treatments)]


def _pairs(treatments: Sequence[str]) -> list[tuple[str, ...]]:
    return [*_one_at_a_time(treatments), *itertools.combinations(treatments, 2)]


def _factorial(treatments: Sequence[str]) -> list[tuple[str, ...]]:
    sizes = range(1, len(treatments) + 1)
    return [each for size in sizes for each in itertools.combinations(treatments, size)]


def _fractional(treatments: Sequence[str]) -> list[tuple[str, ...]]:
    """A fraction of resolution IV: main effects are free of two-factor interactions, which are aliased in groups."""
    if len(treatments) < 4:
        return _factorial(treatments)
    from pydoe import fracfact_by_res

    return _rows(fracfact_by_res(len(treatments), 4), treatments)


def _plackett_burman(treatments: Sequence[str]) -> list[tuple[str, ...]]:
    """Main effects only, in the next multiple of four runs; interactions are smeared over all of them."""
    from pydoe import pbdesign

    return _rows(pbdesign(len(treatments)), treatments)


def _rows(matrix: Floats, treatments: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows of -1 and +1 as arms, the signs turned so that one run is the baseline (another fraction of the same
    family).
    """
    signs = matrix * -matrix[0] if not (matrix == -1).all(axis=1).any() else matrix
    return [tuple(name for name, sign in zip(treatments, row, strict=True) if sign > 0) for row in signs]


DESIGNS: Mapping[str, Callable[[Sequence[str]], list[tuple[str, ...]]]] = {
    "one_at_a_time": _one_at_a_time,
    "ladder": _ladder,
    "leave_one_out": _leave_one_out,
    "pairs": _pairs,
    "factorial": _factorial,
    "fractional": _fractional,
    "plackett_burman": _plackett_burman,
}


# ------------------------------------------------------------------------------------------------ effects


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A main effect or a two-factor interaction, as a factor of time.

    A main effect is the geometric mean speedup from adding the treatment, over all settings of the others. An
    interaction of a and b is the speedup from a with b over that without b: above 1 they help each other.
    """

    name: str
    speedup: float
    ci_low: float
    ci_high: float
    p: float
    variance_share: float
    """Share of the sum of squares between arms."""
    aliases: tuple[str, ...]
    """Effects that this design cannot tell from it; a minus in front means with the opposite sign."""
    pooled: bool
    """Whether the arms' variances agreed and were pooled; else the error is that of the blocks' own effects."""


def fit_effects(
    factors: Sequence[str], levels: Floats, logs: Floats, interactions: bool, alpha: float = 0.05
) -> list[Effect]:
    """Least squares of log time on block terms, main effects and (if asked) two-factor interactions.

    `levels` is -1 or +1 of shape (arms, factors), the baseline among the arms; `logs` is log time of shape (blocks,
    arms), at least 2 blocks. Effects with the same column are one, named by its first member; what is left is its
    aliases.
    """
    names, columns, aliases = _terms(factors, levels, interactions)
    design = np.column_stack([np.ones(len(levels)), *columns])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise UsageError(f"{len(levels)} arms cannot tell {len(names)} effects apart; some arms are missing")
    inverse = np.linalg.pinv(design)
    blocks, arms = logs.shape
    by_block = logs @ inverse.T
    coefficients = by_block.mean(axis=0)
    residuals = logs - logs.mean(axis=1, keepdims=True) - (logs.mean(axis=0) - logs.mean())
    pooled = blocks >= 3 and variances_agree(residuals)
    left = logs - by_block[:, :1] - (coefficients[1:] @ design[:, 1:].T)
    freedom = blocks * arms - blocks - len(names)
    spread = math.sqrt(float(np.sum((left - left.mean(axis=1, keepdims=True)) ** 2)) / freedom)
    between = np.sum((logs.mean(axis=0) - logs.mean()) ** 2)
    found = []
    for index, name in enumerate(names):
        # a coefficient is half an effect, and an interaction is a difference of two effects
        size = 4.0 if ":" in name else 2.0
        center = -size * coefficients[index + 1]
        of = estimate(-size * by_block[:, index + 1], np.zeros(blocks))
        error = size * spread * math.sqrt(float(np.sum(inverse[index + 1] ** 2)) / blocks)
        half = float(t_quantile(freedom, alpha)) * error if pooled else float(half_width(of, alpha))
        p = _pooled_p(center, error, freedom) if pooled else float(p_value(of))
        explained = coefficients[index + 1] ** 2 * np.sum((columns[index] - columns[index].mean()) ** 2)
        found.append(
            Effect(
                name=name,
                speedup=math.exp(center),
                ci_low=math.exp(center - half),
                ci_high=math.exp(center + half),
                p=p,
                variance_share=float(explained / between) if between > 0 else 0.0,
                aliases=aliases[name],
                pooled=pooled,
            )
        )
    return found


def _pooled_p(center: float, error: float, freedom: int) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(center) / error)) if error > 0 else float(center == 0)


def _terms(
    factors: Sequence[str], levels: Floats, interactions: bool
) -> tuple[list[str], list[Floats], dict[str, tuple[str, ...]]]:
    """Names and columns of the effects that can be told apart, and for each the ones that cannot be told from it."""
    every = {name: levels[:, index] for index, name in enumerate(factors)}
    crossed = {
        f"{a}:{b}": levels[:, i] * levels[:, j] for (i, a), (j, b) in itertools.combinations(enumerate(factors), 2)
    }
    aliases: dict[str, tuple[str, ...]] = dict.fromkeys(every, ())
    columns = dict(every)
    for name, column in crossed.items():
        twin = next((known for known, other in columns.items() if abs(column @ other) == len(column)), None)
        constant = abs(column.sum()) == len(column)
        if twin is not None:
            opposite = columns[twin] @ column < 0
            aliases[twin] = (*aliases[twin], f"-{name}" if opposite else name)
        elif interactions and not constant:
            columns[name], aliases[name] = column, ()
    return list(columns), list(columns.values()), aliases


def variances_agree(residuals: Floats) -> bool:
    """Bartlett's test over the columns (arms) of residuals: whether one variance may stand for all."""
    blocks, arms = residuals.shape
    variances = residuals.var(axis=0, ddof=1)
    if np.any(variances <= 0):
        return bool(np.all(variances <= 0))
    each, total = blocks - 1, arms * (blocks - 1)
    mean = variances.mean()
    statistic = total * math.log(mean) - each * float(np.sum(np.log(variances)))
    correction = 1 + (arms / each - 1 / total) / (3 * (arms - 1))
    return float(chdtrc(arms - 1, statistic / correction)) > UNEQUAL_VARIANCES_P
