"""Designs: which arms they make, and that effects planted in them are found with their aliases named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import statsmodels.api as sm

from harness.judge.designs import DESIGNS, design_arms, fit_effects, variances_agree
from harness.judge.factors import treatments_of
from harness.simulate import PROFILES, simulate
from harness.spec import Experiment, UsageError

FOUR = ["amp_bf16", "channels_last", "fused_optimizer", "torch_compile(mode=default)"]


def levels_of(arms: list[str], factors: list[str]) -> np.ndarray:
    names = [treatments_of(factor)[0] for factor in factors]
    return np.array([[1.0 if name in treatments_of(arm) else -1.0 for name in names] for arm in arms])


@pytest.mark.parametrize(
    ("design", "arms"),
    [
        ("one_at_a_time", ["a", "b", "c"]),
        ("ladder", ["a", "a+b", "a+b+c"]),
        ("leave_one_out", ["a+b+c", "b+c", "a+c", "a+b"]),
        ("pairs", ["a", "b", "c", "a+b", "a+c", "b+c"]),
        ("factorial", ["a", "b", "c", "a+b", "a+c", "b+c", "a+b+c"]),
    ],
)
def test_arms_of_simple_designs(design: str, arms: list[str]) -> None:
    assert design_arms(design, ["a", "b", "c"]) == arms


@pytest.mark.parametrize("design", ["fractional", "plackett_burman"])
@pytest.mark.parametrize("count", range(4, 9))
def test_fractions_hold_the_baseline_and_are_balanced(design: str, count: int) -> None:
    factors = [f"t{index}" for index in range(count)]
    levels = levels_of(["", *design_arms(design, factors)], factors)
    assert len(levels) < 2**count
    assert np.array_equal(levels.sum(axis=0), np.zeros(count))
    assert np.array_equal(levels.T @ levels, len(levels) * np.eye(count))


@pytest.mark.parametrize("count", range(4, 9))
def test_resolution_four_keeps_main_effects_free_of_interactions(count: int) -> None:
    factors = [f"t{index}" for index in range(count)]
    levels = levels_of(["", *design_arms("fractional", factors)], factors)
    for (i, j), k in itertools.product(itertools.combinations(range(count), 2), range(count)):
        assert levels[:, i] * levels[:, j] @ levels[:, k] == 0


def test_bad_designs_are_refused_in_words() -> None:
    with pytest.raises(UsageError, match="design 'latin' is unknown; it is one of arms, one_at_a_time"):
        design_arms("latin", ["a"])
    with pytest.raises(UsageError, match="needs treatments"):
        design_arms("factorial", [])
    with pytest.raises(UsageError, match="at most 6 treatments, not 9"):
        design_arms("factorial", list("abcdefghi"))
    assert set(DESIGNS) >= {"one_at_a_time", "factorial"}


def test_effects_are_those_of_least_squares_with_block_terms() -> None:
    rng, blocks = np.random.default_rng(0), 6
    factors = ["a", "b", "c"]
    levels = levels_of(["", *design_arms("factorial", factors)], factors)
    truth = levels @ [-0.05, 0.01, 0.0] + 0.02 * levels[:, 0] * levels[:, 1]
    logs = rng.normal(0, 0.02, (blocks, 1)) + truth + rng.normal(0, 0.005, (blocks, len(levels)))
    effects = {each.name: each for each in fit_effects(factors, levels, logs, interactions=True)}
    crossed = [levels[:, i] * levels[:, j] for i, j in itertools.combinations(range(3), 2)]
    one_block = np.column_stack([levels, *crossed])
    design = np.column_stack([np.tile(one_block, (blocks, 1)), np.repeat(np.eye(blocks), len(levels), axis=0)])
    oracle = sm.OLS(logs.ravel(), design).fit()
    for index, (name, size) in enumerate([("a", 2), ("b", 2), ("c", 2), ("a:b", 4), ("a:c", 4), ("b:c", 4)]):
        assert effects[name].pooled
        assert np.log(effects[name].speedup) == pytest.approx(-size * oracle.params[index])
        assert np.log(effects[name].ci_low) == pytest.approx(-size * oracle.conf_int()[index][1])
        assert effects[name].p == pytest.approx(oracle.pvalues[index], abs=1e-12)
    assert sum(each.variance_share for each in effects.values()) == pytest.approx(1.0, abs=0.05)


def test_aliases_are_named() -> None:
    factors = list("abcd")
    levels = levels_of(["", *design_arms("fractional", factors)], factors)
    logs = np.random.default_rng(1).normal(0, 0.01, (4, len(levels)))
    aliases = {each.name: each.aliases for each in fit_effects(factors, levels, logs, interactions=True)}
    assert aliases["a"] == ()
    assert len([name for name in aliases if ":" in name]) == 3
    assert all(len(twins) == 1 for name, twins in aliases.items() if ":" in name)


def test_unequal_variances_are_not_pooled() -> None:
    rng = np.random.default_rng(2)
    even = rng.normal(0, 1, (20, 8))
    assert variances_agree(even)
    assert not variances_agree(even * np.where(np.arange(8) == 3, 6.0, 1.0))


def test_missing_arms_that_leave_effects_untold_are_an_error() -> None:
    with pytest.raises(UsageError, match="cannot tell"):
        fit_effects(["a", "b"], levels_of(["", "a+b"], ["a", "b"]), np.zeros((4, 2)), interactions=False)


def test_a_factorial_experiment_ends_in_factors() -> None:
    from harness.judge import judge

    treatments = ("a", "b", "c")
    arms = tuple(design_arms("factorial", treatments))
    experiment = Experiment(workloads=("w",), design="factorial", treatments=treatments, arms=arms, preset="tiny")
    truth = {arm: 1.1 ** ("a" in arm) * 1.05 ** ("b" in arm) * 0.95 ** ("a" in arm and "b" in arm) for arm in arms}
    run = simulate(experiment, "s", truth, PROFILES["quiet"], blocks=9, seed=0)
    found = {row["effect"]: row for row in judge(experiment, "s", run.records, run.windows, last_look=True).factors}
    assert found["a:b"]["ci_low"] <= 0.95 <= found["a:b"]["ci_high"]  # type: ignore[operator]
    # a main effect is over both settings of the other: half of the arms with a have b too
    assert found["a"]["speedup"] == pytest.approx(1.1 * 0.95**0.5, rel=0.01)
    assert found["c"]["ci_low"] <= 1 <= found["c"]["ci_high"]  # type: ignore[operator]
