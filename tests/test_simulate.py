"""Simulated experiments have the truth they were given, and the judge finds it at its stated rates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.judge import judge
from harness.judge.types import Word
from harness.simulate import PROFILES, autoregressive, block_orders, draw, parse_truth, power, simulate
from harness.spec import Analysis, Experiment, UsageError

EXPERIMENT = Experiment(workloads=("w",), arms=("a", "b"), preset="tiny")


def test_the_truth_is_found() -> None:
    run = simulate(EXPERIMENT, "s", {"a": 1.05, "b": 0.95}, PROFILES["base"], blocks=9, seed=0)
    rows = [c for c in judge(EXPERIMENT, "s", run.records, run.windows, last_look=True).comparisons if c.primary]
    assert [c.verdict for c in rows] == [Word.FASTER, Word.SLOWER]
    for row, truth in zip(rows, (1.05, 0.95), strict=True):
        assert row.ci_low is not None
        assert row.ci_high is not None
        assert row.ci_low <= truth <= row.ci_high


def test_the_same_seed_writes_the_same_run() -> None:
    runs = [simulate(EXPERIMENT, "s", {}, PROFILES["noisy"], blocks=3, seed=seed) for seed in (1, 1, 2)]
    assert runs[0].records == runs[1].records
    assert runs[0].records != runs[2].records
    for key, table in runs[0].windows.items():
        assert all(np.array_equal(column, runs[1].windows[key][name]) for name, column in table.items())


def test_records_have_the_shape_of_a_real_run() -> None:
    run = simulate(replace(EXPERIMENT, axes={"batch": (4, 8)}), "s", {}, PROFILES["base"], blocks=2, seed=0)
    assert len(run.records) == 2 * 2 * 4
    assert len({record.trial_id for record in run.records}) == len(run.records)
    assert [record.trial_id for record in run.records] == sorted(record.trial_id for record in run.records)
    for block in (0, 1):
        positions = [r.position for r in run.records if r.block_index == block and '"batch": 4' in r.params_json]
        assert positions == [0, 1, 2, 3]
    record = run.records[0]
    table = run.windows[record.trial_id]
    assert record.step_count == len(table["host_ns"]) == 15
    assert record.raw_median_window_ns == np.median(table["host_ns"])


def test_truth_is_read_from_the_command_line() -> None:
    arms = ["amp_bf16", "torch_compile(mode=default)"]
    assert parse_truth("torch_compile(mode=default)=1.05", arms) == {arms[0]: 1.0, arms[1]: 1.05}
    for text, message in (("amp=1.05", "no arm 'amp'"), ("amp_bf16=fast", "is no number"), ("amp_bf16=0", "above 0")):
        with pytest.raises(UsageError, match=message):
            parse_truth(text, arms)


def test_orders_are_reversed_in_pairs() -> None:
    orders = block_orders(np.random.default_rng(0), 50, 7, 4)
    assert orders.shape == (50, 7, 4)
    assert (np.sort(orders, axis=-1) == np.arange(4)).all()
    assert (orders[:, 0] + orders[:, 1] == 3).all()


def test_the_noise_has_the_stated_sizes() -> None:
    rng = np.random.default_rng(1)
    series = autoregressive(rng, (4000, 30), 0.7)
    assert series.std() == pytest.approx(1, abs=0.02)
    assert np.mean(series[:, 1:] * series[:, :-1]) == pytest.approx(0.7, abs=0.02)
    noise = replace(PROFILES["quiet"], window=0.0)
    d = draw(rng, noise, experiments=4000, blocks=4, windows=2).differences()
    assert d.std() == pytest.approx(noise.process * math.sqrt(2), rel=0.05)


def test_power_says_what_it_takes() -> None:
    easy = power(0.05, PROFILES["base"], Analysis(), repetitions=300)
    hard = power(0.01, PROFILES["noisy"], Analysis(), repetitions=300)
    assert easy.found > 0.99
    assert easy.mean_blocks < 6
    assert hard.found < easy.found
    assert power(0.0, PROFILES["base"], Analysis(), repetitions=300).equivalent > 0.9


def test_two_hundred_identical_arms_are_rarely_called_different() -> None:
    """The whole path, windows, steady state and blocks of another length than the self-test's."""
    experiment = Experiment(workloads=("w",), arms=("x",), preset="tiny")
    claimed = 0
    for seed in range(200):
        run = simulate(experiment, "s", {}, PROFILES["noisy"], blocks=7, seed=1000 + seed)
        first = judge(experiment, "s", run.records, run.windows, last_look=True).comparisons[0]
        claimed += first.verdict in (Word.FASTER, Word.SLOWER)
    assert claimed / 200 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)
