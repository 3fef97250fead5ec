"""What a reader should know beside the verdict: notes on one comparison, none of which changes it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import fdtrc, stdtr

from harness.judge.estimate import Estimate, Floats, half_width, signed_rank, t_quantile

RAW_ALPHA = 0.05
NOTE_P = 0.01
"""Below this p an order effect or a difference between sessions is mentioned."""
BIMODAL_FROM = 8
BIMODAL_SHARE = 0.93
"""Two levels explain at least this share of the blocks' variance (of Gaussian ones, 64 % on average, rarely 85 %)."""
SESSIONS_FOR_PREDICTION = 3


def tail_effect(typical: Estimate, mean: Estimate) -> str | None:
    """Says so where the typical step and the mean step change differently: their 95 % intervals do not overlap."""
    reach = float(half_width(typical, RAW_ALPHA) + half_width(mean, RAW_ALPHA))
    if abs(float(typical.center - mean.center)) <= reach:
        return None
    return (
        f"TAIL EFFECT: the typical step changes by {math.expm1(float(typical.center)):+.1%}, "
        f"the mean step by {math.expm1(float(mean.center)):+.1%}"
    )


def several_batches(ratio: float) -> str | None:
    """Says that times were brought to the same work, where the ranks of one arm do more batches in a step."""
    if ratio == 1:
        return None
    return f"a step does {ratio:g} times the baseline's batches, one a rank; times are given for the baseline's"


def rank_disagreement(differences: Floats, of: Estimate, alpha: float) -> str | None:
    """Compares with the exact signed-rank interval, where one exists at this level."""
    ranks = signed_rank(differences, alpha)
    if ranks is None:
        return None
    half = float(half_width(of, alpha))
    by_t = abs(float(of.center)) > half
    by_rank = ranks.low > 0 or ranks.high < 0
    if by_t == by_rank:
        return None
    words = "excludes" if by_rank else "does not exclude"
    return f"the rank-based (Hodges-Lehmann) interval {words} 1, unlike the t interval: look at the blocks"


def order_effect(of: Estimate) -> str | None:
    """Whether the arm's place before or after the baseline mattered (it is balanced, and removed from the estimate)."""
    effect, error = float(of.order_effect), float(of.order_error)
    if math.isnan(effect) or error == 0 or 2 * stdtr(float(of.freedom), -abs(effect) / error) > NOTE_P:
        return None
    return f"order effect: {math.expm1(effect):+.1%} where the arm ran after the baseline; removed from the estimate"


def bimodal(differences: Floats) -> str | None:
    """Names blocks that fall into two levels: processes that come in two kinds, of which a mean describes neither."""
    d = np.sort(differences)
    if len(d) < BIMODAL_FROM or d[-1] == d[0]:
        return None
    total = float(np.sum((d - d.mean()) ** 2))
    splits = range(2, len(d) - 1)
    inside = [float(np.sum((d[:k] - d[:k].mean()) ** 2) + np.sum((d[k:] - d[k:].mean()) ** 2)) for k in splits]
    cut = splits[int(np.argmin(inside))]
    if 1 - min(inside) / total < BIMODAL_SHARE:
        return None
    apart = math.expm1(float(d[cut:].mean() - d[:cut].mean()))
    return f"bimodal processes: {min(cut, len(d) - cut)} of {len(d)} blocks lie {apart:.1%} apart from the rest"


def across_sessions(differences: Floats, sessions: Sequence[str], sign: float) -> list[str]:
    """With three or more sessions: what to expect of a new one, and whether the sessions differ.

    The prediction interval is the t interval for one more session mean: m +- t s sqrt(1 + 1/S), printed as a speedup
    (`sign` is -1 where a lower metric is better).
    """
    names = list(dict.fromkeys(sessions))
    if len(names) < SESSIONS_FOR_PREDICTION:
        return []
    labels = np.array(sessions)
    groups = [sign * differences[labels == name] for name in names]
    means, count = np.array([group.mean() for group in groups]), len(groups)
    reach = float(t_quantile(count - 1, RAW_ALPHA)) * float(means.std(ddof=1)) * math.sqrt(1 + 1 / count)
    low, high = math.exp(means.mean() - reach), math.exp(means.mean() + reach)
    notes = [f"{count} sessions; 95 % prediction interval for a new one: {low:.3f} to {high:.3f}"]
    inside = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups)
    freedom = len(differences) - count
    if freedom > 0 and inside > 0:
        between = sum(len(group) * (group.mean() - np.mean(sign * differences)) ** 2 for group in groups) / (count - 1)
        if fdtrc(count - 1, freedom, float(between) / (inside / freedom)) < NOTE_P:
            notes.append("the sessions differ by more than their blocks explain: trust the prediction interval")
    return notes
