"""The label of an effect on several classes of hardware, from intervals made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judge.across import Agreement, agreement
from harness.judge.types import Comparison, Word


def comparison(low: float | None, high: float | None) -> Comparison:
    values: dict[str, Any] = dict.fromkeys(("before", "after", "speedup", "ci_level", "raw_ci_low", "raw_ci_high"))
    return Comparison(
        workload="w", mode="train", preset="tiny", input="loader", axes={}, arm="x", baseline="", metric="step_time",
        unit="ns", ci_low=low, ci_high=high, blocks=4, verdict=Word.INCONCLUSIVE, reason="", **values,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("intervals", "label"),
    [
        ([(1.40, 1.60), (1.45, 1.55)], Agreement.CONSISTENT),
        ([(0.70, 0.80), (0.72, 0.82)], Agreement.CONSISTENT),
        ([(0.995, 1.005), (0.998, 1.008)], Agreement.CONSISTENT),  # nothing on either
        ([(1.01, 1.09), (1.40, 1.60)], Agreement.DIFFERS),  # the same direction, another size
        ([(1.05, 1.10), (0.90, 0.95)], Agreement.DIFFERS),
        ([(1.40, 1.60), (1.45, 1.55), (2.00, 2.10)], Agreement.DIFFERS),
        ([(0.90, 1.60), (1.10, 1.50)], Agreement.CANNOT_TELL),
        ([(1.40, 1.60), (None, None)], Agreement.CANNOT_TELL),
        ([(1.40, 1.60)], Agreement.CANNOT_TELL),
    ],
)
def test_the_label(intervals: list[tuple[float | None, float | None]], label: Agreement) -> None:
    made = [comparison(*each) for each in intervals]
    assert agreement(made, 0.01)[0] is label
    assert agreement(made[::-1], 0.01)[0] is label
