"""The verdict words in their order of evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.weightstats import ttost_paired

from harness.judge.estimate import estimate, half_width
from harness.judge.types import Word
from harness.judge.verdict import ABOVE, BELOW, EQUIVALENT, UNDECIDED, decide, log_rope, word_for
from harness.metrics import METRICS


@pytest.mark.parametrize(
    ("low", "high", "code"),
    [
        (-0.005, 0.005, EQUIVALENT),
        (0.001, 0.009, EQUIVALENT),
        (0.001, 0.02, ABOVE),
        (-0.03, -0.02, BELOW),
        (-0.005, 0.02, UNDECIDED),
    ],
)
def test_verdicts_in_their_order(low: float, high: float, code: int) -> None:
    assert int(decide(low, high, 0.01)) == code


@pytest.mark.parametrize("seed", range(12))
def test_equivalence_is_two_one_sided_tests(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = rng.normal(0, 0.02, 5)
    after = before + rng.normal(0.003, 0.004, 5)
    of, alpha = estimate(after - before, [1, -1, 1, -1, 1]), 0.05
    half = half_width(of, 2 * alpha)
    inside = int(decide(of.center - half, of.center + half, 0.01)) == EQUIVALENT
    assert inside == (ttost_paired(after, before, -0.01, 0.01)[0] < alpha)


@pytest.mark.parametrize(
    ("metric", "above", "below"),
    [
        ("step_time", Word.SLOWER, Word.FASTER),
        ("throughput", Word.FASTER, Word.SLOWER),
        ("peak_memory", Word.HIGHER, Word.LOWER),
        ("memory_utilization", Word.HIGHER, Word.LOWER),
        ("startup_time", Word.SLOWER, Word.FASTER),
    ],
)
def test_every_direction_has_its_word(metric: str, above: Word, below: Word) -> None:
    assert word_for(ABOVE, METRICS[metric]) is above
    assert word_for(BELOW, METRICS[metric]) is below


def test_the_region_is_the_same_both_ways() -> None:
    assert np.exp(log_rope(0.01)) == pytest.approx(1.01)
    assert np.exp(-log_rope(0.01)) == pytest.approx(1 / 1.01)
