"""The estimate and its interval against hand arithmetic, scipy and statsmodels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.judge.estimate import estimate, half_width, p_value, signed_rank


@pytest.mark.parametrize("blocks", [2, 4, 5])
def test_below_six_blocks_it_is_the_paired_t_test(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    after, before = rng.normal(1, 0.1, blocks), rng.normal(1.05, 0.1, blocks)
    of = estimate(after - before, np.where(np.arange(blocks) % 2, 1, -1))
    oracle = stats.ttest_rel(after, before)
    low, high = oracle.confidence_interval(0.95)
    assert float(p_value(of)) == pytest.approx(oracle.pvalue)
    assert float(of.center - half_width(of, 0.05)) == pytest.approx(low)
    assert float(of.center + half_width(of, 0.05)) == pytest.approx(high)


@pytest.mark.parametrize("order", [[1, -1] * 4, [1, 1, 1, -1, -1, 1, 1, 1], [1, -1, 0, 1, -1, 1, 1, -1]])
def test_from_six_blocks_it_is_least_squares_on_the_order(order: list[int]) -> None:
    d = np.random.default_rng(1).normal(0.02, 0.01, len(order)) + 0.03 * np.array(order)
    of = estimate(d, order)
    oracle = sm.OLS(d, sm.add_constant(np.array(order, dtype=float))).fit()
    assert float(of.center) == pytest.approx(oracle.params[0])
    assert float(of.error) == pytest.approx(oracle.bse[0])
    assert float(of.freedom) == oracle.df_resid
    assert float(p_value(of)) == pytest.approx(oracle.pvalues[0])
    assert float(of.order_effect) == pytest.approx(2 * oracle.params[1])
    assert float(of.order_error) == pytest.approx(2 * oracle.bse[1])


def test_an_order_that_hardly_varies_is_not_fitted() -> None:
    of = estimate(np.arange(8.0), [1, 1, 1, 1, 1, 1, 1, -1])
    assert float(of.freedom) == 7
    assert np.isnan(of.order_effect)


def test_by_hand() -> None:
    of = estimate([0.01, 0.02, 0.03, 0.04], [1, -1, 1, -1])
    assert float(of.center) == pytest.approx(0.025)
    assert float(of.spread) == pytest.approx(0.0129099445)
    assert float(of.error) == pytest.approx(0.0129099445 / 2)
    assert float(half_width(of, 0.05)) == pytest.approx(3.18244630 * 0.0129099445 / 2)


def test_without_spread_the_p_value_is_zero_or_one() -> None:
    assert float(p_value(estimate([0.5] * 4, [1, -1, 1, -1]))) == 0.0
    assert float(p_value(estimate([0.0] * 4, [1, -1, 1, -1]))) == 1.0


differences = st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=2, max_size=28)


@given(differences, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_swapping_the_arms_negates_exactly(d: list[float], seed: int) -> None:
    order = np.random.default_rng(seed).choice([-1, 1], len(d))
    one, other = estimate(d, order), estimate(-np.array(d), -order)
    assert float(one.center) == -float(other.center)
    assert (float(one.error), float(one.spread)) == (float(other.error), float(other.spread))


@given(differences, st.randoms())
@settings(max_examples=60, deadline=None)
def test_labels_of_blocks_do_not_matter(d: list[float], random: object) -> None:
    rows = [(value, 1 if index % 2 else -1) for index, value in enumerate(d)]
    shuffled = rows[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (estimate([a for a, _ in each], [b for _, b in each]) for each in (rows, shuffled))
    ties = len({abs(value) for value in d}) < len(d)
    if not ties:
        assert (float(one.center), float(one.error)) == (float(other.center), float(other.error))
    assert float(one.center) == pytest.approx(float(other.center), abs=1e-15)


def test_many_at_once_are_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(4)
    d, z = rng.normal(size=(5, 3, 9)), rng.choice([-1.0, 1.0], (5, 3, 9))
    together = estimate(d, z)
    for row in itertools.product(range(5), range(3)):
        alone = estimate(d[row], z[row])
        assert float(alone.center) == float(together.center[row])
        assert float(alone.error) == float(together.error[row])


@pytest.mark.parametrize(("blocks", "alpha"), [(6, 0.05), (8, 0.05), (10, 0.01), (12, 0.02)])
def test_the_signed_rank_interval_is_the_exact_one(blocks: int, alpha: float) -> None:
    d = np.random.default_rng(blocks).normal(0.1, 1, blocks)
    ranks = signed_rank(d, alpha)
    assert ranks is not None
    # an interval is what a test does not reject: just inside and just outside its ends
    for end, inward in ((ranks.low, 1), (ranks.high, -1)):
        inside = stats.wilcoxon(d - (end + inward * 1e-9), method="exact").pvalue
        outside = stats.wilcoxon(d - (end - inward * 1e-9), method="exact").pvalue
        assert inside > alpha >= outside
    averages = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(d, 2)]
    assert ranks.center == pytest.approx(np.median(averages))


def test_there_is_no_signed_rank_interval_where_none_exists() -> None:
    assert signed_rank([1.0, 2.0, 3.0, 4.0], 0.05) is None
    assert signed_rank([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2.0**-5) is not None
    assert signed_rank([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2.0**-5 - 1e-9) is None
