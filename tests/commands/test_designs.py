"""Factorial designs and axes with real processes, from the experiment file to the table of effects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.commands.judge_command import judge_stored, stored_spec
from harness.judge.types import Judgement, Word
from harness.store import Store
from tests.commands.test_cli import PLUGINS, QUIET, own_locks, run  # noqa: F401

TREATMENT = """
import time
from harness.spec import NoEffect, Proof, Treatment

def between(step, bench):
    calls = bench.facts["{name}"] = [0]
    def slowed():
        step()
        calls[0] += 1
        end = time.perf_counter_ns() + {wait_ns}
        while time.perf_counter_ns() < end:
            pass
    return slowed

def after(bench, snapshot, trace):
    if not bench.facts.get("{name}"):
        raise NoEffect("nothing waits")
    return {{"calls": bench.facts["{name}"][0]}}

TREATMENT = Treatment(name="{name}", summary="waits", sources=("https://example.org",), proof=Proof(after=after),
                      hooks={{"between": between}}, numerics=lambda traits: "identical")
"""


def measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, design: str, waits: dict[str, int], **lines: str
) -> Judgement:
    """Run a design over treatments that wait so many ns each, on steps of some milliseconds."""
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    for name, wait_ns in waits.items():
        (plugins / f"{name}.py").write_text(TREATMENT.format(name=name, wait_ns=wait_ns))
    text = [
        f"design = '{design}'", f"treatments = {json.dumps(list(waits))}", "workloads = ['ticking']", "preset = 'tiny'",
        "input = 'resident'", "numerics = false", *(f"{key} = {value}" for key, value in lines.items()),
        "[measure]", "windows = 5", "window_ms = 8", "extensions = 8", "[analysis]", "max_blocks = 4",
    ]  # fmt: skip
    (tmp_path / "mine.toml").write_text("\n".join(text))
    argv = ("run", "mine.toml", "results", "--plugins", str(PLUGINS), "--plugins", str(plugins), "--device", "cpu")
    code, _, err = run(capsys, *argv, "--reports", "reports", *QUIET)
    assert code == 0, err
    store = Store(tmp_path / "results")
    return judge_stored(stored_spec("mine", store), store)


def test_a_factorial_at_every_point_of_an_axis(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    waits = {"short": 1_000_000, "long": 4_000_000}
    found = measured(capsys, tmp_path, "factorial", waits, axes="{milliseconds = [2.0, 4.0]}")
    primary = [each for each in found.comparisons if each.primary]
    assert {(each.axes["milliseconds"], each.arm) for each in primary} == {
        (step, arm) for step in (2.0, 4.0) for arm in ("short", "long", "long+short")
    }
    assert {each.verdict for each in primary if each.arm == "long"} <= {Word.SLOWER, Word.INVALID, Word.INCONCLUSIVE}
    rows = {(row["axes"], row["effect"]): row for row in found.factors}
    assert {effect for _, effect in rows} == {"short", "long", "short:long"}
    for step in (2.0, 4.0):
        # alone (step + 4) / step, beside the other (step + 5) / (step + 1); an effect is the geometric mean
        expected = 1 / (((step + 4) / step) * ((step + 5) / (step + 1))) ** 0.5
        row = rows[f"milliseconds={step}", "long"]
        assert row["speedup"] == pytest.approx(expected, rel=0.25)
        assert rows[f"milliseconds={step}", "long"]["speedup"] < rows[f"milliseconds={step}", "short"]["speedup"]
    assert rows["milliseconds=2.0", "long"]["speedup"] < rows["milliseconds=4.0", "long"]["speedup"]


@pytest.mark.full
@pytest.mark.parametrize(("design", "arms"), [("fractional", 8), ("plackett_burman", 8)])
def test_fractions_of_four_factors(capsys: pytest.CaptureFixture[str], tmp_path: Path, design: str, arms: int):
    waits = {"one": 500_000, "two": 1_000_000, "three": 2_000_000, "four": 6_000_000}
    found = measured(capsys, tmp_path, design, waits)
    primary = [each for each in found.comparisons if each.primary]
    assert len(primary) == arms - 1
    effects = {row["effect"]: row for row in found.factors}
    assert set(waits) <= set(effects)
    assert min(waits, key=lambda name: effects[name]["speedup"]) == "four"
    if design == "fractional":
        assert any(row["aliases"] for row in found.factors)
