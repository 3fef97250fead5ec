"""The figures that the statistics must reach, from the code that `harness selftest` runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.selftest import FULL, Figure, selftest, share


def failures(figures: list[Figure]) -> list[str]:
    return [f"{f.number} {f.name}: {f.reached:.4g}, {f.side} {f.bound}" for f in figures if not f.passed]


def test_every_figure_is_within_its_bound_and_stands_in_the_documentation() -> None:
    figures = selftest()
    page = (Path(__file__).parents[1] / "docs" / "measurement.md").read_text(encoding="utf-8")
    first_table = page.split("`harness selftest --markdown`")[1].split("`harness selftest --full")[0]
    shown = [row.split(" | ")[1:3] for row in first_table.splitlines() if row.startswith("| ") and "figure" not in row]
    assert [[name.split(" (AR")[0], bound] for name, bound in shown[1:]] == [
        [figure.name.split(" (AR")[0], f"{figure.side} {figure.bound:g}"] for figure in figures
    ]
    assert {figure.number for figure in figures} == set(range(1, 11))
    assert failures(figures) == []


@pytest.mark.full
def test_every_figure_of_the_whole_grid_is_within_its_bound() -> None:
    assert failures(selftest(full=True)) == []
    assert FULL.grid == "full"


def test_the_tolerance_is_three_computed_standard_errors() -> None:
    hits = np.array([1.0] * 8 + [0.0] * 92)
    figure = share(2, "example", 0.05, "at most", hits)
    assert figure.standard_error == pytest.approx((0.08 * 0.92 / 100) ** 0.5)
    assert figure.passed
    assert not share(2, "example", 0.05, "at most", np.repeat(hits, 100)).passed
    assert not share(8, "example", 0.9, "at least", np.zeros(100)).passed
