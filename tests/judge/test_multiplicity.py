"""Holm, Benjamini-Hochberg and the shares of alpha, against statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from harness.judge.multiplicity import benjamini_hochberg, holm, shares

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=25)


@given(p_values)
@settings(max_examples=40, deadline=None)
def test_holm_is_that_of_statsmodels(p: list[float]) -> None:
    assert holm(p, len(p)) == pytest.approx(multipletests(p, method="holm")[1])


@given(p_values)
@settings(max_examples=40, deadline=None)
def test_benjamini_hochberg_is_that_of_statsmodels(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1])


@given(p_values)
@settings(max_examples=40, deadline=None)
def test_claims_handed_on_are_holms_rejections(p: list[float]) -> None:
    _, claimed = shares(p, 0.05, len(p))
    assert claimed.tolist() == (holm(p, len(p)) <= 0.05).tolist()


def test_what_was_declared_and_not_measured_counts() -> None:
    assert holm([0.01, np.nan], 5).tolist()[0] == pytest.approx(0.05)
    share, claimed = shares([0.011, np.nan], 0.05, 5)
    assert share.tolist() == [0.2, 0.2]
    assert not claimed.any()


def test_a_claim_hands_its_share_on() -> None:
    share, claimed = shares([0.001, 0.02, 0.9], 0.05, 3)
    assert claimed.tolist() == [True, True, False]
    assert share.tolist() == pytest.approx([1 / 3, 1 / 2, 1.0])


def test_unknown_p_values_are_not_counted_by_benjamini_hochberg() -> None:
    adjusted = benjamini_hochberg([0.01, np.nan, 0.04])
    assert adjusted[[0, 2]] == pytest.approx(multipletests([0.01, 0.04], method="fdr_bh")[1])
    assert np.isnan(adjusted[1])
