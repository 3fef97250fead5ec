"""A loss scale that overflows: what it costs while warming up is counted, and what it skips later is not passed off."""

from __future__ import annotations

from pathlib import Path

from harness.judge.pairing import WITHHELD
from harness.record import ChildRecord, Outcome
from harness.spec import Kind
from tests.contracts import trying


def timed(arm: str, folder: Path) -> ChildRecord:
    sizes = {"layers": 1, "width": 16, "sequence_length": 8, "vocabulary": 100}
    return trying.run(trying.make_trial("gpt2_small", arm, folder, kind=Kind.TIMING, **sizes))


def test_an_overflowing_scale_is_counted_in_the_warm_up_and_shows_in_the_windows(tmp_path: Path) -> None:
    record = timed("amp_fp16(init_scale=1.7e38)", tmp_path)
    assert record.outcome in (Outcome.OK, Outcome.NOT_STEADY), record.reason
    assert record.skipped_steps
    assert record.steps_performed < record.steps_asked, "the warm-up here is too short for the scale to settle"
    assert Outcome.NOT_COMPARABLE in WITHHELD, "such an arm has no speed"


def test_a_scale_that_fits_skips_nothing(tmp_path: Path) -> None:
    record = timed("amp_fp16(init_scale=64.0)", tmp_path)
    assert record.skipped_steps == 0
    assert record.steps_performed == record.steps_asked
