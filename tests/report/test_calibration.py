"""The report of an A/A, and what a later report cites of it."""

from __future__ import annotations

from harness.judge import judge
from harness.report.data import ReportContext
from harness.report.page import render
from harness.simulate import PROFILES, simulate
from harness.spec import Analysis, Experiment

AA = Experiment(
    workloads=("w",), design="aa", replicates=4, preset="tiny", numerics=False, analysis=Analysis(max_blocks=6)
)
CONTEXT = ReportContext(command="harness run s", spec_text="", spec_hash="s", result_hashes={}, generator="harness")


def test_an_aa_answers_how_many_identical_pairs_were_told_apart():
    run = simulate(AA, "s", {}, PROFILES["quiet"], blocks=6, baselines=4)
    judgement = judge(AA, "s", run.records, run.windows, last_look=True)
    page = render(judgement, run.records, run.windows, [], {}, CONTEXT)
    assert "0 of 6" in page
    assert "pairs of identical runs are judged different" in page
    assert "What this machine can tell apart" in page
    assert "All sessions of this experiment" in page


def test_a_later_report_shows_the_calibration_it_cites():
    run = simulate(AA, "s", {}, PROFILES["quiet"], blocks=6, baselines=4)
    stored = judge(AA, "s", run.records, run.windows, last_look=True).calibrations
    experiment = Experiment(workloads=("w",), arms=("x",), preset="tiny")
    later = simulate(experiment, "s2", {"x": 1.05}, PROFILES["quiet"], blocks=4, session=1)
    judgement = judge(experiment, "s2", later.records, later.windows, last_look=True, stored=stored)
    page = render(judgement, later.records, later.windows, [], {}, CONTEXT)
    assert "What this machine can tell apart" in page
    assert "of 6 identical pairs outside their 95 % interval" in page
