"""From the ledger to experiments, and the join with what is stored: no claim is silently absent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import identity
from harness.claims import Turn, judge_claims, next_turn, plan_claims
from harness.commands.cli import main
from harness.config import Ledger, experiment_toml, load_ledger, parse_experiment
from harness.judge import judge
from harness.judge.claims import ClaimWord
from harness.machine import describe
from harness.plan import make_plan
from harness.registry import load_registry
from harness.spec import Claim, UsageError
from harness.store import Store
from tests.helpers import TOYS, machine

PLUGINS = Path(__file__).parent / "plugins"


def claim(id: str = "1-a", **more: Any) -> Claim:
    values = {"workload": "toy", "metric": "step_time", "direction": "lower", "treatments": ("alpha",)}
    return Claim(id=id, source="s", statement="t", **{**values, **more})


def planned(*claims: Claim, **more: Any) -> Any:
    return plan_claims(Ledger(claims, ("conv_toy", "toy")), TOYS, machine(), preset="tiny", **more)


def obstacle(given: Claim) -> str:
    return str(planned(given).rows[0].obstacle)


def test_claims_of_one_article_and_workload_share_their_baseline() -> None:
    plan = planned(
        claim("1-a"),
        claim("1-b", treatments=("beta",), params={"beta": {"n": 3}}),
        claim("1-c", before=("alpha",), treatments=()),
        claim("1-d", mode="infer"),
        claim("2-a"),
    )
    assert [(each.arms, each.baseline, each.mode) for each in plan.experiments] == [
        (("alpha", "beta(n=3)"), "", "train"),
        (("",), "alpha", "train"),
        (("alpha",), "", "infer"),
        (("alpha",), "", "train"),
    ]
    assert len({each.name for each in plan.experiments}) == 4
    assert all(row.experiment and not row.obstacle for row in plan.rows)


def test_any_workload_is_the_first_that_the_arms_apply_to() -> None:
    rows = planned(claim("1-a", workload="any"), claim("1-b", workload="any", treatments=("conv_only",))).rows
    assert [(row.workload, row.note) for row in rows] == [("conv_toy", "stands for any workload")] * 2
    ledger = Ledger((claim(workload="any", treatments=("conv_only",)),), ("toy", "conv_toy"))
    assert plan_claims(ledger, TOYS, machine(), preset="tiny").rows[0].workload == "conv_toy"


def test_expressions_over_the_machine_are_resolved() -> None:
    given = claim(treatments=("cores",), params={"cores": {"n": "cores - 1"}})
    assert planned(given).rows[0].arm == "cores(n=3)"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (claim(treatments=("unheard_of",)), "the harness has no treatment unheard_of yet"),
        (claim(before=("unheard_of",)), "the harness has no treatment unheard_of yet"),
        (claim(workload="unheard_of"), "the harness has no workload unheard_of yet"),
        (claim(metric="unheard_of"), "the harness has no metric unheard_of yet"),
        (claim(treatments=("harness:unheard_of",)), "the harness has no unheard_of yet"),
        (claim(needs="root"), "needs root"),
        (claim(needs="package:unheard-of"), "needs the package unheard-of, which is not installed"),
        (claim(needs="cuda"), "needs a CUDA device; this run is on a CPU"),
        (claim(treatments=("gpu_only",)), "gpu_only needs a CUDA device; this run is on cpu"),
        (claim(treatments=("conv_only",)), "conv_only acts on conv, which toy does not have"),
        (claim(before=("alpha",)), "on this machine both arms are the same"),
        (claim(treatments=(), axes={"batch": (2, 4)}), "it compares points of an axis, not arms"),
        (
            claim(treatments=("half", "third")),
            "arm 'half+third': half and third both set the precision",
        ),
    ],
)
def test_what_cannot_be_tested_here_says_why(given: Claim, reason: str) -> None:
    assert obstacle(given) == reason


def test_a_feature_of_the_harness_that_is_there_is_no_obstacle() -> None:
    row = planned(claim(metric="", direction="", treatments=("harness:doctor",))).rows[0]
    assert (row.obstacle, row.experiment, row.note) == ("", "", "a feature of the harness: doctor")


def test_analogues_stand_apart() -> None:
    plan = planned(claim("1-a", scope="cuda"), claim("1-b", treatments=("beta",)))
    assert [each.arms for each in plan.experiments] == [("alpha",), ("beta",)]


def test_alternatives_are_measured_beside_the_claim_where_they_can_be() -> None:
    plan = planned(claim(alternatives=("beta", "unheard_of", "gpu_only"), alternatives_before=("compiler",)))
    assert [(each.arms, each.baseline) for each in plan.experiments] == [
        (("alpha", "beta"), ""),
        (("alpha",), "compiler"),
    ]


def test_one_article_is_a_part_and_an_unknown_one_is_refused() -> None:
    assert [row.claim.id for row in planned(claim("1-a"), claim("2-a"), article="2").rows] == ["2-a"]
    with pytest.raises(UsageError, match="no article '3' in the claims ledger; there are 1"):
        planned(claim("1-a"), article="3")


def turn(name: str, blocks: int = 4, seconds: float = 60, claims: int = 1, analogue: bool = False) -> Turn:
    return Turn(experiment=name, blocks=blocks, seconds=seconds, claims=claims, analogue=analogue)


@pytest.mark.parametrize(
    ("turns", "left", "taken"),
    [
        ([turn("slow", seconds=90), turn("quick")], 100, "quick"),
        ([turn("one", seconds=30), turn("many", claims=3)], 100, "many"),  # most claims a minute
        ([turn("second look", blocks=6, seconds=10), turn("first look")], 100, "first look"),
        ([turn("analogue", seconds=10, analogue=True), turn("verdict")], 100, "verdict"),
        ([turn("beside", seconds=10, claims=0), turn("claim")], 100, "claim"),
        ([turn("first look", seconds=200), turn("second look", blocks=6)], 100, "second look"),  # what fits
        ([turn("too long")], 50, None),
        ([], 50, None),
    ],
)
def test_the_turn_that_settles_most_claims_a_minute_is_next(turns: list[Turn], left: float, taken: str | None) -> None:
    found = next_turn(turns, left)
    assert (found.experiment if found else None) == taken


# ------------------------------------------------------------------------------------------------ our own ledger


def test_the_ledger_is_read_whole_and_every_claim_has_a_fate() -> None:
    ledger = load_ledger()
    plan = plan_claims(ledger, load_registry(), describe(), device="cpu")
    assert {claim.id for claim in ledger.claims} <= {row.claim.id for row in plan.rows}
    assert len({claim.id for claim in ledger.claims}) == len(ledger.claims)
    judged = judge_claims(plan, {}, lambda spec_id: pytest.fail("nothing is stored"))
    for row in judged:
        assert row.status in ("planned", "untestable here", "no verdict")
        assert row.verdict.reason
    assert any(row.status == "planned" for row in judged)


def test_what_the_ledger_tests_is_what_the_plan_measures() -> None:
    registry, here = load_registry(), describe()
    plan = plan_claims(load_ledger(), registry, here, device="cpu")
    for experiment in plan.experiments:
        made = make_plan(experiment, registry, here)
        assert made.baseline == experiment.baseline
        for row in plan.rows_of(experiment):
            assert row.arm in made.arms, row.claim.id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("claim = 3", "key 'claim'"),
        ("[[claim]]\nid = 'x'", "missing required field"),
        (
            "[[claim]]\nid = 'x'\nsource = ''\nstatement = ''\nmetrik = ''",
            "claim 'x' has no key 'metrik'; did you mean",
        ),
        ("[[claim", "is not valid TOML"),
    ],
)
def test_a_broken_ledger_is_refused_in_words(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "ledger.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_ledger(path)


# ------------------------------------------------------------------------------------------------ for real

LEDGER = """
[[claim]]
id = "001-slow"
source = "a test"
statement = "A wait of 60 % makes the step 60 % longer."
metric = "step_time"
change = 0.6
workload = "ticking"
treatments = ["slowdown"]
params = { slowdown = { percent = 60 } }
[[claim]]
id = "001-wrong"
source = "a test"
statement = "It makes the step shorter."
metric = "step_time"
direction = "lower"
workload = "ticking"
treatments = ["slowdown"]
params = { slowdown = { percent = 60 } }
as_written = "does not run"
[[claim]]
id = "002-never"
source = "a test"
statement = "Nobody has it."
metric = "step_time"
direction = "lower"
workload = "ticking"
treatments = ["unheard_of"]
"""


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(argv))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_claims_are_measured_once_judged_and_reported(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.device_lock.runtime_folder", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    ledger = tmp_path / "ledger.toml"
    ledger.write_text(LEDGER)
    argv = [
        "claims", "--ledger", str(ledger), "--plugins", str(PLUGINS), "--preset", "tiny", "--device", "cpu",
        "--max-blocks", "4", "--max-foreign-load", "64", "--max-steal", "1", "--results", str(results),
    ]  # fmt: skip
    code, out, err = run(capsys, *argv, "--budget", "1s")
    assert (code, "not run: claims_001_ticking_train: budget" in out) == (0, True), err
    code, out, err = run(capsys, *argv, "--budget", "20m")
    assert code == 0, err
    trials = len(Store(results).trials())
    code, out, _ = run(capsys, *argv, "--json", "--strict")
    assert code == 5  # one is contradicted, which is an error only where it is asked for
    rows = {row["name"]: row for row in json.loads(out)}
    assert len(Store(results).trials()) == trials  # nothing was left to measure
    slow, wrong, never = (rows[name] for name in ("001-slow", "001-wrong", "002-never"))
    assert (slow["status"], slow["blocks"], slow["claimed"]) == ("tested", 4, pytest.approx([0.48, 0.72]))
    assert slow["low"] < slow["change"] < slow["high"]
    assert wrong["verdict"] == ClaimWord.CONTRADICTED
    assert (never["status"], never["reason"]) == ("untestable here", "the harness has no treatment unheard_of yet")
    page = (results.parent / "reports" / "claims.html").read_text(encoding="utf-8")
    for text in (
        "A wait of 60 % makes the step 60 % longer.",
        "does not run",
        "contradicted",
        "the effect goes the other way",
    ):
        assert text in page
    _cells_of_tested_rows_are_stored(results, json.loads(out))


def _cells_of_tested_rows_are_stored(results: Path, rows: list[dict[str, Any]]) -> None:
    """A row that says "tested" has timed trials of both its arms in the store, block by block."""
    trials = [trial for trial in Store(results).trials() if trial.kind == "timing" and trial.outcome == "ok"]
    tested = [row for row in rows if row["status"] == "tested"]
    assert tested
    for row in tested:
        for arm in (row["arm"], row["baseline"]):
            blocks = {
                trial.block_index
                for trial in trials
                if (trial.spec_id, trial.workload, trial.arm) == (row["spec_id"], row["workload"], arm)
            }
            assert len(blocks) >= row["blocks"] > 0


def test_cells_count_from_whatever_experiment_measured_them() -> None:
    """A claim is tested by its cells, not by the name of the experiment that they were measured in."""
    from tests.judge.runs import Run

    plan = planned(claim())
    (experiment,) = plan.experiments
    wider = replace(make_plan(experiment, TOYS, machine()).experiment, name="other", arms=("alpha", "beta"))
    spec_id = identity.spec_id(wider)
    made = Run(arms=("alpha", "beta")).blocks(
        4, lambda arm, block, position: (0.5 if arm == "alpha" else 1) + block / 1e3
    )
    for record in made.records:
        record.spec_id, record.workload = spec_id, "toy"
    stored = {spec_id: parse_experiment(experiment_toml(wider), spec_id)}
    (row,) = judge_claims(plan, stored, lambda key: judge(stored[key], key, made.records, made.windows, last_look=True))
    assert (row.verdict.word, row.verdict.blocks, row.experiment) == (ClaimWord.HELD, 4, "other")
    other_preset = {spec_id: replace(stored[spec_id], preset="small")}
    (row,) = judge_claims(plan, other_preset, lambda key: pytest.fail("these are other cells"))
    assert row.status == "planned"
