"""Numbers and names as a reader sees them, against values worked out by hand."""

from __future__ import annotations

import pytest

from harness.judge.types import Comparison, Word
from harness.report import format as fmt
from harness.report.format import SPACE

S = SPACE


@pytest.mark.parametrize(
    ("half_width", "places"),
    [
        (0.05, 2),
        (0.03, 2),
        (0.029, 3),
        (0.0185, 3),
        (0.1, 2),
        (0.4, 1),
        (1.2, 1),
        (3.0, 0),
        (40.0, 0),
        (0.0, 3),
        (1e-9, 4),
    ],
)
def test_decimals_reach_the_first_digit_of_the_half_width_or_its_second_after_a_1_or_2(half_width, places):
    assert fmt.decimals(half_width) == places


@pytest.mark.parametrize(
    ("value", "low", "high", "text", "bounds"),
    [
        (2.1437, 2.0936, 2.1951, "2.14", "2.09 to 2.20"),  # half-width 0.051
        (1.0042, 0.9982, 1.0102, "1.004", "0.998 to 1.010"),  # half-width 0.0060
        (1.8765, 0.7012, 3.1012, "1.9", "0.7 to 3.1"),  # half-width 1.2
        (1.25, 1.25, 1.25, "1.250", "1.250 to 1.250"),  # no width at all: exact
    ],
)
def test_a_speedup_and_its_interval_have_the_digits_of_the_interval(value, low, high, text, bounds):
    assert fmt.speedup(value, low, high) == text
    assert fmt.interval(low, high) == bounds


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_what_is_no_number_is_said_in_words(missing):
    assert fmt.fixed(missing, 2) == "not known"
    assert fmt.quantity(missing, "ns") == "not known"
    assert fmt.significant(missing) == "not known"
    assert fmt.interval(missing, 1.0) == "not known"


def test_before_and_after_share_the_unit_of_the_larger():
    assert fmt.quantities([1.412e9, 0.9e9], "ns") == [f"1.41{S}s", f"0.900{S}s"]
    assert fmt.quantities([412e6, 5e6], "ns", 0.01) == [f"412{S}ms", f"5.00{S}ms"]  # half-widths 4.12 and 0.05
    assert fmt.quantity(1536 * 2**20, "bytes") == f"1.50{S}GiB"
    assert fmt.quantity(0.0132, "1") == f"1.3{S}%"
    assert fmt.quantity(1.0, "1") == f"100{S}%"
    assert fmt.quantity(512_300, "mw") == f"512{S}W"
    assert fmt.quantity(19.42, "items/s") == f"19.4{S}items/s"
    assert fmt.quantity(0, "bytes") == f"0{S}B"


def test_a_minus_is_a_minus_and_zero_has_none():
    assert fmt.fixed(-1.25, 1) == "\u22121.2"
    assert fmt.fixed(-0.001, 1) == "0.0"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.95, f"95{S}%"), (0.9936, f"99.36{S}%"), (0.99968, f"99.968{S}%"), (0.9, f"90{S}%"), (None, "not known")],
)
def test_a_level_shows_two_digits_of_what_is_missing_to_one(value, text):
    assert fmt.level(value) == text


def test_a_long_name_is_cut_so_that_two_stay_two():
    one, other = fmt.capped("a" * 10_000 + "x", 400), fmt.capped("a" * 10_000 + "y", 400)
    assert len(one) <= 400
    assert one != other
    assert "10001 characters" in one
    assert fmt.shortened("abcdefghij", 7) == "abcd…ij"
    assert fmt.shortened("a\n b", 7) == "a b"


def test_counts_agree_with_their_noun():
    assert fmt.count(1, "block") == f"1{S}block"
    assert fmt.count(0, "block") == f"0{S}blocks"


def comparison(verdict: Word, speedup: float | None) -> Comparison:
    nothing = dict.fromkeys(("ci_low", "ci_high", "ci_level", "raw_ci_low", "raw_ci_high"))
    place = {
        "workload": "w",
        "mode": "train",
        "preset": "tiny",
        "input": "loader",
        "axes": {},
        "arm": "a",
        "baseline": "",
    }
    values = {"metric": "m", "unit": "ns", "before": 1.0, "after": 1.0, "speedup": speedup, "blocks": 4, "reason": ""}
    return Comparison(**place, **values, **nothing, verdict=verdict)


@pytest.mark.parametrize(
    ("verdict", "speedup", "tone"),
    [
        (Word.FASTER, 1.2, "better"),
        (Word.SLOWER, 0.8, "worse"),
        (Word.LOWER, 1.6, "better"),  # less memory
        (Word.HIGHER, 0.6, "worse"),  # more memory
        (Word.HIGHER, 1.6, "better"),  # more throughput: above 1 is better for every metric
        (Word.LOWER, 0.6, "worse"),  # less throughput
        (Word.EQUIVALENT, 1.004, "same"),
        (Word.INCONCLUSIVE, 1.4, "open"),
        (Word.INVALID, 1.9, "error"),
        (Word.NOT_RUN, None, "absent"),
    ],
)
def test_colours_say_better_or_worse_by_the_direction_of_the_metric(verdict, speedup, tone):
    assert fmt.look(comparison(verdict, speedup)).tone == tone


def test_every_verdict_has_a_glyph_of_its_own():
    glyphs = [fmt.look(comparison(verdict, 1.0)).glyph for verdict in Word]
    assert len(set(glyphs)) == len(Word)
