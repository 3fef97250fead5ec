"""Axes, paths and pictures that all figures share."""

from __future__ import annotations

import math

import pytest
from matplotlib.figure import Figure

from harness.report import page
from harness.report.figures import PALETTE, canvas, picture, ratio_range, ratio_ticks, small_svg


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.94, 1.06, [0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06]),
        (0.5, 2.4, [0.5, 0.7, 1, 1.5, 2]),
        (1.635, 1.685, [1.64, 1.65, 1.66, 1.67, 1.68]),
        (0.01, 100, [0.01, 0.1, 1, 10, 100]),
    ],
)
def test_ticks_are_round_and_few_and_hold_the_baseline(low, high, ticks):
    assert ratio_ticks(low, high, most=7 if len(ticks) == 7 else 6) == pytest.approx(ticks)


@pytest.mark.parametrize("middle", [0.03, 0.9, 1.0, 1.7, 40.0])
@pytest.mark.parametrize("width", [1.004, 1.03, 1.2, 1.9, 3.0, 12.0, 4000.0])
def test_every_range_has_some_ticks(middle, width):
    low, high = middle / math.sqrt(width), middle * math.sqrt(width)
    ticks = ratio_ticks(low, high)
    assert 1 <= len(ticks) <= 6
    assert all(low <= tick <= high for tick in ticks)
    assert 1.0 in ticks or not low <= 1 <= high or high / low <= 2


def test_a_wild_interval_does_not_dwarf_the_points():
    low, high = ratio_range([0.98, 1.5], [0.001, 900.0])
    assert low < 0.98
    assert high > 1.5
    assert high / low < 3


def test_a_drawing_becomes_small_text_whose_colours_are_variables():
    def draw() -> Figure:
        figure = canvas(120, 60)
        axes = figure.add_axes((0.1, 0.2, 0.8, 0.7))
        axes.plot([1, 2, 3], [1, 3, 2], color=next(iter(PALETTE)))
        axes.set_title("1.23456 $x$ <&>")
        return figure

    made = picture(draw)
    assert (made.width, made.height) == (120, 60)
    assert "1.23456%20$x$%20%26lt;%26amp;%26gt;" in made.source
    assert "var(--ink)" in made.source
    assert " " not in made.source
    assert '"' not in made.source
    assert picture(draw) == made


def test_digits_in_paths_are_cut_but_not_those_of_texts():
    svg = '<svg><g id="line2d_1"><path d="M 10.123456 2.5 L 3.0001 4 "/></g><text>0.123456</text></svg>'
    assert "<path d='M10.1,2.5L3,4'/>" in small_svg(svg)
    assert "<text>0.123456</text>" in small_svg(svg)


def test_figures_are_exported_as_png(single_case, tmp_path):
    written = page.export_png(page.report_data(*single_case.arguments()), tmp_path / "figures")
    assert [path.name for path in written] == ["speedups.png", "time-memory.png", "blocks-1.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
