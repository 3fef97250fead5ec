"""The README's promises: its examples run, its words and exit codes are those of the code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands.cli import VERBS
from harness.commands.exit_codes import Exit
from harness.judge.types import Word
from tests.helpers import OWN_LOCKS

README = (Path(__file__).parents[1] / "README.md").read_text()

EXAMPLES = dict(re.findall(r"```python\n# ([\w/]+\.py)\n(.*?)```", README, re.DOTALL))
"""By the path that a reader would give them."""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples' files, as a reader would copy them."""
    folder = tmp_path_factory.mktemp("copied") / "my_plugins"
    folder.mkdir()
    for name, text in EXAMPLES.items():
        (folder.parent / name).write_text(text)
    return folder


def harness(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OWN_LOCKS, *map(str, arguments)],
        cwd=folder, env=dict(os.environ), capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


WORKLOAD = ("-w", "train.py:WORKLOAD")
ARGUMENTS = ("--plugins", "my_plugins", "--treatments", "zero_in_place", "--preset", "tiny", "--device", "cpu")


def test_the_example_plug_ins_are_listed_and_planned(plugins: Path) -> None:
    listed = harness("list", "treatments", "--plugins", "my_plugins", "--json", folder=plugins.parent)
    assert "zero_in_place" in {row["name"] for row in json.loads(listed.stdout)}, listed.stderr
    planned = harness("plan", *WORKLOAD, *ARGUMENTS, "--json", folder=plugins.parent)
    assert planned.returncode == 0, planned.stderr
    trials = json.loads(planned.stdout)["trials"]
    assert sorted(trial["arm"] for trial in trials) == ["", "zero_in_place"]
    assert {trial["workload"] for trial in trials} == {"my_model"}


def test_a_training_script_becomes_a_workload_in_under_20_lines() -> None:
    added = EXAMPLES["train.py"].partition("# What the harness needs to know:\n")[2].partition("\nif __name__")[0]
    assert 0 < len(list(filter(None, added.splitlines()))) < 20


def test_the_example_script_still_trains_by_itself(plugins: Path) -> None:
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=plugins.parent, capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert done.stdout.startswith("loss 0."), done.stderr


@pytest.mark.full
def test_the_example_command_ends_in_a_verdict_and_a_report(plugins: Path) -> None:
    """Ten processes. The proof of the example is accepted with the treatment and refused without it."""
    done = harness("run", *WORKLOAD, *ARGUMENTS, "--max-blocks", "4", "--max-foreign-load", "99", folder=plugins.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "zero_in_place" in done.stdout
    assert list((plugins.parent / "reports").glob("*.html"))
    judged = harness("judge", "latest", "--json", folder=plugins.parent)
    (verdict,) = [row for row in json.loads(judged.stdout)["verdicts"] if row["metric"] == "step_time"]
    assert verdict["blocks"] == 4
    assert verdict["verdict"] in {Word.FASTER, Word.SLOWER, Word.EQUIVALENT, Word.INCONCLUSIVE}


def test_every_verdict_word_is_explained() -> None:
    section = README.partition("## What the verdicts mean")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z ]+)`", section)) >= {str(word) for word in Word}


def test_every_exit_code_is_explained() -> None:
    section = README.partition("## Exit codes")[2].partition("\n## ")[0]
    codes = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", section, re.MULTILINE) for code in row.split(",")}
    assert codes == {int(code) for code in Exit}


def test_every_verb_is_named() -> None:
    section = README.partition("## Two commands")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)))
    assert sorted(named) == sorted(VERBS)
