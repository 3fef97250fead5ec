"""Where a process is cut: shapes with a known start, flat series, and the partition against ruptures."""

from __future__ import annotations

import numpy as np
import pytest
import ruptures
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.steady import (
    FEWEST_WINDOWS,
    earliest_start,
    find_steady,
    find_steady_batch,
    optimal_partition,
    without_spikes,
)


def noisy(seed: int, count: int, sd: float = 0.01) -> np.ndarray:
    return 1e8 * np.exp(sd * np.random.default_rng(seed).standard_normal(count))


def test_a_flat_process_keeps_all_windows() -> None:
    steady = find_steady(noisy(0, 30))
    assert (steady.start, steady.kept, steady.ok, steady.reason) == (0, 30, True, "")


@pytest.mark.parametrize("count", [15, 30, 60])
@pytest.mark.parametrize("height", [0.1, -0.1, 0.5])
def test_a_step_is_cut_where_it_is(count: int, height: float) -> None:
    times = noisy(1, count)
    times[: count // 4] *= 1 + height
    assert find_steady(times).start == count // 4


def test_a_slow_first_window_is_cut() -> None:
    times = noisy(2, 15)
    times[0] *= 1.5
    assert find_steady(times).start == 1


def test_a_lone_spike_in_the_middle_is_kept() -> None:
    times = noisy(3, 30)
    times[17] *= 1.2
    steady = find_steady(times)
    assert (steady.start, steady.ok) == (0, True)


def test_a_decay_is_cut_where_its_tail_is_harmless() -> None:
    index = np.arange(60)
    times = noisy(4, 60, 0.005) * np.exp(0.2 * np.exp(-index / 4))
    steady = find_steady(times)
    assert steady.ok
    assert 0.2 * np.exp(-steady.start / 4) < 0.01


def test_a_process_that_slows_down_is_not_steady() -> None:
    steady = find_steady(noisy(5, 30) * (1 + 0.01 * np.arange(30)))
    assert not steady.ok
    assert "30 windows" in steady.reason


def test_a_change_near_the_end_is_not_steady() -> None:
    times = noisy(6, 30)
    times[24:] *= 1.2
    steady = find_steady(times)
    assert (steady.ok, steady.kept) == (False, 6)
    assert steady.reason == "only the last 6 of 30 windows are at one level"


def test_five_windows_are_enough_and_four_are_not() -> None:
    assert FEWEST_WINDOWS == 5
    assert find_steady(noisy(7, 5)).ok
    assert not find_steady(noisy(7, 4)).ok
    assert find_steady(noisy(7, 12), minimum=15).reason == "12 windows, at least 15 are needed"


def test_of_five_windows_a_slow_first_one_is_cut_if_it_is_slow_enough() -> None:
    assert find_steady([150.0, 100.1, 100.0, 99.9, 100.2]).start == 1


def test_equal_windows_are_steady() -> None:
    assert find_steady([7.0] * 15).ok


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_window_without_a_time_is_not_steady(bad: float) -> None:
    times = [1.0] * 9 + [bad]
    assert find_steady(times).reason == "a window has no positive time"


def test_windows_with_compilation_or_new_memory_are_cut() -> None:
    assert earliest_start([0, 1, 0, 0], []) == 2
    assert earliest_start([0, 0, 0, 0], [5, 5, 6, 6]) == 3
    assert earliest_start([np.nan] * 4, [np.nan] * 4) == 0
    assert find_steady(noisy(8, 30), earliest=4).start >= 4
    assert not find_steady(noisy(8, 30), earliest=25).ok


@given(st.integers(0, 10_000), st.integers(5, 40), st.sampled_from([2.0**-20, 2.0**10, 1e-9, 1e3]))
@settings(max_examples=25, deadline=None)
def test_the_unit_of_time_does_not_matter(seed: int, count: int, unit: float) -> None:
    times = noisy(seed, count)
    one, other = find_steady(times), find_steady(times * unit)
    assert (one.start, one.ok, one.reason) == (other.start, other.ok, other.reason)


def test_a_batch_says_what_its_members_say_alone() -> None:
    times = np.stack([noisy(seed, 30) * np.where(np.arange(30) < seed, 1.1, 1.0) for seed in range(12)])
    batch = find_steady_batch(times)
    for row, series in enumerate(times):
        alone = find_steady(series)
        assert (alone.start, alone.ok) == (batch.start[row], batch.ok[row])


@pytest.mark.parametrize("seed", range(8))
def test_the_partition_is_that_of_ruptures(seed: int) -> None:
    rng = np.random.default_rng(seed)
    series = np.repeat(rng.normal(0, 3, 4), rng.integers(3, 12, 4)) + rng.standard_normal(1)
    series = series + rng.standard_normal(len(series)) * 0.5
    penalty = 3.0 * np.log(len(series)) * 0.25
    previous = optimal_partition(series[None, :], np.array([penalty]))[0]
    ends, end = [], len(series)
    while end > 0:
        ends.append(end)
        end = int(previous[end])
    oracle = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(series).predict(pen=penalty)
    assert ends[::-1] == oracle


def test_spikes_are_pulled_to_three_scales_and_warm_up_is_not() -> None:
    series = np.zeros((1, 20))
    series[0, 10] = series[0, 0] = 5.0
    pulled = without_spikes(series, np.array([0.1]))[0]
    assert pulled[10] == pytest.approx(0.3)
    assert pulled[0] == 5.0
