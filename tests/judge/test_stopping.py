"""The looks, what a budget between them may spend, and the blocks still needed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.judge.estimate import estimate
from harness.judge.stopping import (
    LOOK_ALPHAS,
    LOOKS,
    anytime_half_width,
    blocks_needed,
    level,
    look_at,
    minimal_detectable_effect,
    schedule,
    sequence_p,
)


def test_the_standard_schedule_has_the_stated_levels() -> None:
    weights = schedule()
    assert tuple(weights) == LOOKS
    assert [float(level(weight, 0.05)) for weight in weights.values()] == pytest.approx(list(LOOK_ALPHAS))


@pytest.mark.parametrize("most", [4, 5, 6, 8, 9, 12, 20, 27, 28])
def test_a_shorter_sequence_spends_at_most_alpha_or_the_standard_level_at_its_end(most: int) -> None:
    weights = schedule(max_blocks=most)
    assert max(weights) == most
    *earlier, last = [weights[look] for look in sorted(weights)]
    standard = next(alpha for look, alpha in zip(LOOKS, LOOK_ALPHAS, strict=True) if look >= most) / 0.05
    assert sum(earlier) + last == pytest.approx(1.0) or last == pytest.approx(standard)


def test_a_longer_sequence_splits_alpha() -> None:
    weights = schedule(max_blocks=60)
    assert weights[4] == pytest.approx(0.5 * 0.0064 / 0.05)
    assert sum(weights.values()) == pytest.approx(1.0)


def test_never_fewer_than_four_blocks() -> None:
    assert min(schedule(min_blocks=1)) == 4
    assert not look_at(3, schedule(), last_look=True).decides


def test_between_looks_nothing_is_decided_until_the_end() -> None:
    weights = schedule()
    assert look_at(6, weights).decides
    between = look_at(7, weights)
    assert (between.decides, between.next_look) == (False, 9)
    end = look_at(7, weights, last_look=True)
    assert end.decides
    assert end.weight == pytest.approx((1 - (0.0064 + 0.0051) / 0.05) / 2)


def test_a_run_that_went_on_after_an_end_has_half_left() -> None:
    weights = schedule()
    assert look_at(9, weights, earlier_ends=[7]).weight == pytest.approx(weights[9] / 2)
    assert look_at(9, weights, earlier_ends=[9]).weight == pytest.approx(weights[9])
    # a budget that ended at a look, or before the first, has spent what the schedule spends there
    assert look_at(9, weights, earlier_ends=[3, 4, 6]).weight == pytest.approx(weights[9])


def test_more_blocks_than_the_maximum_are_judged_at_the_last_level() -> None:
    assert look_at(40, schedule()).weight == schedule()[28]


@pytest.mark.parametrize("alpha", [0.05, 0.02, 0.0025, 0.0005, 1e-6])
def test_sequence_p_is_the_alpha_that_would_just_claim(alpha: float) -> None:
    for weight in schedule().values():
        assert float(sequence_p(level(weight, alpha), weight)) == pytest.approx(alpha, rel=1e-2)


def test_levels_for_many_comparisons_keep_their_alpha() -> None:
    """The constants at alpha / 20, where they were corrected: the chance of any claim over all looks."""
    rng, alpha, repetitions = np.random.default_rng(11), 0.05 / 20, 400_000
    d = rng.standard_normal((repetitions, LOOKS[-1]))
    sums, squares = np.cumsum(d, axis=1), np.cumsum(d**2, axis=1)
    claimed = np.zeros(repetitions, dtype=bool)
    for blocks, weight in schedule().items():
        mean = sums[:, blocks - 1] / blocks
        error = np.sqrt((squares[:, blocks - 1] / blocks - mean**2) / (blocks - 1))
        claimed |= np.abs(mean) > stats.t.isf(float(level(weight, alpha)) / 2, blocks - 1) * error
    reached = claimed.mean()
    assert reached <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / repetitions)
    assert reached >= 0.8 * alpha


def test_the_minimal_detectable_effect_is_found_with_its_power() -> None:
    rng, blocks, sd = np.random.default_rng(2), 9, 0.01
    of = estimate(rng.normal(0, sd, (4000, blocks)), np.ones((4000, blocks)))
    effect = float(np.log1p(np.median(minimal_detectable_effect(of, 0.05))))
    shifted = rng.normal(effect, sd, (4000, blocks))
    found = stats.ttest_1samp(shifted, 0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.05)


def test_blocks_needed_by_hand() -> None:
    weights = schedule()
    # at 4 blocks: t(3, .0064) = 6.72, so s = 1 % gives 3.4 %; at 6: t(4, .0051) = 5.57, 2.3 %
    assert blocks_needed(0.04, 0.01, 0.01, weights, 0.05) == 4
    assert blocks_needed(0.03, 0.01, 0.01, weights, 0.05) == 6
    far = blocks_needed(0.005, 0.05, 0.01, weights, 0.05)
    assert far is not None
    assert far > 28
    assert blocks_needed(0.0, 10.0, 1e-9, weights, 0.05) is None


def test_the_anytime_interval_covers_at_every_number_of_blocks_at_once() -> None:
    rng, repetitions, alpha = np.random.default_rng(3), 4000, 0.05
    d = rng.standard_normal((repetitions, 60))
    missed = np.zeros(repetitions, dtype=bool)
    for blocks in range(4, 61):
        mean, sd = d[:, :blocks].mean(axis=1), d[:, :blocks].std(axis=1, ddof=1)
        missed |= np.abs(mean) > anytime_half_width(sd, blocks, alpha)
    assert missed.mean() <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / repetitions)
    assert math.isinf(anytime_half_width(1.0, 2, alpha))
    assert float(anytime_half_width(1.0, 50, alpha)) < 1.0
