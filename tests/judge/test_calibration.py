"""A/A experiments: identical runs compared in pairs, what they say together, and how later verdicts cite it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.judge import judge
from harness.judge.calibration import lag_correlation, noise_floor, order_effect
from harness.judge.pairing import replicate_places
from harness.judge.types import Calibration, Judgement, Word
from harness.simulate import PROFILES, Noise, simulate
from harness.spec import Analysis, Experiment

BLOCKS = 8
AA = Experiment(
    workloads=("w",), design="aa", replicates=7, preset="tiny", numerics=False, analysis=Analysis(max_blocks=BLOCKS)
)


def measured(noise: Noise, seed: int = 0, blocks: int = BLOCKS, last_look: bool = True) -> Judgement:
    run = simulate(AA, "s", {}, noise, blocks=blocks, seed=seed, baselines=AA.replicates)
    return judge(AA, "s", run.records, run.windows, last_look=last_look)


def test_seven_runs_a_block_make_twenty_one_pairs_that_are_judged_like_arms():
    judgement = measured(PROFILES["quiet"])
    assert len(judgement.comparisons) == 21
    assert {each.blocks for each in judgement.comparisons} == {BLOCKS}
    assert len({(each.baseline, each.arm) for each in judgement.comparisons}) == 21
    (calibration,) = judgement.calibrations
    assert calibration.comparisons == 21
    outside = [not each.raw_ci_low <= 1 <= each.raw_ci_high for each in judgement.comparisons]
    assert calibration.false_positives == sum(outside)
    assert calibration.claims == sum(each.verdict in (Word.FASTER, Word.SLOWER) for each in judgement.comparisons)


def test_every_run_is_as_often_early_as_late():
    for pair in range(3):
        forward, backward = (replicate_places(7, 2 * pair + each) for each in (0, 1))
        assert sorted(forward) == list(range(7))
        assert [one + other for one, other in zip(forward, backward, strict=True)] == [6] * 7
    assert replicate_places(7, 0) != replicate_places(7, 2)


def test_no_pair_is_final_before_the_last_block_however_clear_it_is():
    assert not any(each.final for each in measured(PROFILES["quiet"], blocks=BLOCKS - 1, last_look=False).comparisons)
    assert all(each.final for each in measured(PROFILES["quiet"], last_look=False).comparisons)


def test_one_pair_in_twenty_lies_outside_its_interval_and_hardly_any_family_has_a_claim():
    found = [measured(PROFILES["noisy"], seed).calibrations[0] for seed in range(40)]
    shares = np.array([each.false_positives / each.comparisons for each in found])
    assert shares.mean() <= 0.05 + 3 * shares.std(ddof=1) / math.sqrt(len(shares))
    assert shares.mean() > 0.01
    families = np.mean([each.claims > 0 for each in found])
    assert families <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(found))


def test_the_noise_floor_is_that_of_a_difference_of_two_processes():
    noise = Noise(process=0.01, window=0.001, block=0.02, slot=0.03)
    found = [measured(noise, seed).calibrations[0].noise_floor for seed in range(5)]
    assert np.mean(found) == pytest.approx(0.01 * math.sqrt(2), rel=0.15)


def test_noise_floor_and_order_effect_by_hand():
    logs = np.array([[0.0, 0.02], [1.0, 1.02], [2.0, 2.05]])
    assert noise_floor(logs) == pytest.approx(np.std([0.02, 0.02, 0.05], ddof=1))
    shift, p = order_effect(logs)
    assert shift == pytest.approx(math.expm1(0.03))
    assert 0.05 < p < 0.15
    assert order_effect(np.zeros((4, 3))) == (0.0, 1.0)


def test_more_blocks_find_less():
    (calibration,) = measured(PROFILES["base"]).calibrations
    sizes = list(calibration.detectable.values())
    assert sizes == sorted(sizes, reverse=True)
    assert f"{calibration.noise_floor:.2%}" in calibration.sentence
    assert "of 21 identical pairs" in calibration.sentence


def test_dependent_blocks_are_seen_and_independent_ones_rarely_called_so():
    rng = np.random.default_rng(0)
    wandering = np.cumsum(rng.standard_normal((28, 3)), axis=0)
    correlation, p = lag_correlation(wandering)
    assert correlation > 0.5
    assert p < 0.01
    assert lag_correlation(np.zeros((5, 3))) == (0.0, 1.0)
    called = [lag_correlation(rng.standard_normal((8, 7)))[1] < 0.05 for _ in range(1000)]
    assert np.mean(called) < 0.07


# ------------------------------------------------------------------------------------------------ citing it


def judged(stored: list[Calibration] | None, days: float = 0) -> list[tuple[str, str]]:
    """Threats of an experiment on the simulated machine, that much later."""
    experiment = Experiment(workloads=("w",), arms=("x",), preset="tiny")
    run = simulate(experiment, "s2", {}, PROFILES["quiet"], blocks=4, session=int(days))
    return [
        (each.severity, each.text) for each in judge(experiment, "s2", run.records, run.windows, stored=stored).threats
    ]


def test_verdicts_cite_the_calibration_of_their_workload_and_machine():
    (calibration,) = measured(PROFILES["quiet"]).calibrations
    threats = judged([calibration, replace(calibration, workload="other")])
    assert ("note", calibration.sentence) in threats
    assert not any("measures it again" in text for _, text in threats)


@pytest.mark.parametrize(
    ("changes", "days", "words"),
    [
        ({}, 9, "days before this"),
        ({"base_env_id": "e2"}, 0, "under another driver, torch or Python"),
        ({"claims": 2}, 0, "judged 2 identical pairs different"),
    ],
)
def test_a_stale_or_failed_calibration_is_a_warning(changes: dict[str, object], days: int, words: str):
    (calibration,) = measured(PROFILES["quiet"]).calibrations
    threats = judged([replace(calibration, **changes)], days)
    assert [severity for severity, text in threats if words in text] == ["warning"]


@pytest.mark.parametrize("other", [{"machine_id": "m2"}, {"preset": "small"}, {"mode": "infer"}, {"workload": "v"}])
def test_without_a_calibration_it_says_how_to_make_one(other: dict[str, str]):
    (calibration,) = measured(PROFILES["quiet"]).calibrations
    threats = judged([replace(calibration, **other)])
    assert any(severity == "note" and "`harness aa w --preset tiny`" in text for severity, text in threats)
    assert not any("harness aa" in text for _, text in judged(None))
