"""Settings are checked in one place, for experiment files and command lines alike."""

from __future__ import annotations

import dataclasses

import pytest

from harness.config import RANGES, check_ranges, parse_duration, parse_experiment, parse_share
from harness.spec import Analysis, Experiment, Measure, UsageError


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("[analysis]\nrope = -0.01", "analysis.rope -0.01 is out of range; it is at least 0 and at most 0.5"),
        ("[analysis]\nrope = nan", "analysis.rope nan is out of range"),
        ("[analysis]\nalpha = 0", "analysis.alpha 0 is out of range; it is above 0 and below 0.5"),
        ("[analysis]\nalpha = 1", "analysis.alpha 1"),
        ("[analysis]\nmax_blocks = 0", "analysis.max_blocks 0"),
        ("[analysis]\nmin_blocks = -3", "analysis.min_blocks -3"),
        ("[analysis]\nprecision = 2", "analysis.precision 2 is out of range; it is at least 0.0001"),
        ("[analysis]\nbudget = 'soon'", "'soon' is no duration"),
        ("[analysis]\nbudget = '0s'", "'0s' is no time to do anything in"),
        ("[analysis]\nmax_steal_share = 1.5", "analysis.max_steal_share 1.5"),
        ("[analysis]\nopen_ended = true\nrope = 0", "may never end"),
        ("[measure]\nwindows = 3", "measure.windows 3 is out of range; it is at least 5"),
        ("[measure]\nwindow_ms = 0", "measure.window_ms 0"),
        ("[measure]\ntimed_seconds = inf", "measure.timed_seconds inf"),
        ("seed = -1", "seed -1 is out of range"),
    ],
)
def test_a_setting_that_no_run_could_honour_is_refused_with_what_is_allowed(setting: str, message: str):
    with pytest.raises(UsageError) as refused:
        parse_experiment(setting, "mine.toml")
    assert message in str(refused.value)
    assert "mine.toml" in str(refused.value)


def test_defaults_are_within_their_ranges_and_every_number_has_one():
    check_ranges(Experiment())
    numbers = {
        prefix + field.name
        for prefix, kind in (("", Experiment), ("analysis.", Analysis), ("measure.", Measure))
        for field in dataclasses.fields(kind)
        if field.type in ("int", "float")
    }
    assert set(RANGES) == numbers


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("2.5 %", 0.025), ("0.01", 0.01)])
def test_shares(text: str, share: float):
    assert parse_share(text, "rope") == pytest.approx(share)
    with pytest.raises(UsageError, match="rope 'wide' is no number"):
        parse_share("wide", "rope")


def test_a_duration_may_be_nothing_unless_it_must_not():
    assert parse_duration("0") == 0
    with pytest.raises(UsageError, match="no time"):
        parse_duration("0", above_zero=True)
