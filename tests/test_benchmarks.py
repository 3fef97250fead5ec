"""The promises about the harness's own cost, kept by the scripts in benchmarks/."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_timed_loop_adds_under_a_microsecond_a_step() -> None:
    done = run("overhead.py", "--windows", "40", "--steps", "2000")
    assert done.returncode == 0, done.stdout + done.stderr
    bare, harness = (float(found) for found in re.findall(r"([\d.]+) ns a step$", done.stdout, re.MULTILINE))
    assert 0 < bare < 100_000
    assert harness - bare < 1000


@pytest.mark.full
def test_a_trial_costs_little_more_than_a_bare_script() -> None:
    done = run("fixed_cost.py", "--workload", "resnet50", "--preset", "tiny", "--pairs", "7")
    assert done.returncode == 0, done.stdout + done.stderr
