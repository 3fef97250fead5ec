"""The judge on whole records: verdicts, reasons, families, what is dropped and what is withheld."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest

from harness.judge.types import Word
from harness.record import Outcome
from harness.simulate import PROFILES, simulate
from harness.spec import Analysis, Experiment, Kind
from tests.judge.runs import STEP_NS, Run, jitter


def test_a_faster_arm_by_hand() -> None:
    differences = [-0.05, -0.051, -0.049, -0.05]
    found = Run().blocks(4, lambda arm, block, position: math.exp(differences[block]) if arm else 1.0).verdict()
    assert found.verdict is Word.FASTER
    assert found.beyond_rope
    assert found.speedup == pytest.approx(math.exp(0.05), rel=1e-6)
    error = np.std(differences, ddof=1) / 2
    assert found.raw_ci_low == pytest.approx(math.exp(0.05 - 3.182446 * error), rel=1e-6)
    assert found.ci_level == pytest.approx(1 - 0.0064)
    assert found.before == pytest.approx(STEP_NS, rel=2e-3)
    assert found.before / found.after == pytest.approx(found.speedup)  # type: ignore[operator]
    assert (found.blocks, found.unit, found.primary, found.final) == (4, "ns", True, True)
    assert [point.order for point in found.points] == [1, -1, 1, -1]


def test_a_slower_arm_and_its_throughput() -> None:
    run = Run().blocks(4, jitter({"x": 1.2}))
    assert run.verdict().verdict is Word.SLOWER
    throughput = run.verdict(metric="throughput")
    assert throughput.verdict is Word.SLOWER
    assert not throughput.primary
    assert throughput.speedup == pytest.approx(run.verdict().speedup, rel=1e-2)
    assert throughput.before == pytest.approx(4 / 0.1, rel=1e-2)


def test_ranks_that_do_a_batch_each_are_compared_by_time_for_the_same_work() -> None:
    run = Run().blocks(4, jitter({"x": 1.6}))
    for record in run.records:
        if record.arm == "x":
            record.rank_count, record.items_per_step = 2, 8.0
            record.declared_changes_json = '["items_per_step", "rank_count"]'
    found = run.verdict()
    assert found.verdict is Word.FASTER
    assert found.after == pytest.approx(0.8 * STEP_NS, rel=1e-2)
    assert found.speedup == pytest.approx(1.25, rel=1e-2)
    assert run.verdict(metric="throughput").speedup == pytest.approx(found.speedup, rel=1e-2)
    assert "a step does 2 times the baseline's batches, one a rank; times are given for the baseline's" in found.notes


def test_an_equal_arm_is_equivalent() -> None:
    found = Run().blocks(6, jitter({}, size=0.001)).verdict()
    assert found.verdict is Word.EQUIVALENT
    assert found.reason == "any difference is smaller than 0.01"


def test_equivalent_has_its_sign() -> None:
    found = Run().blocks(6, jitter({"x": 0.995}, size=0.0005)).verdict()
    assert (found.verdict, found.beyond_rope) == (Word.EQUIVALENT, False)
    assert found.reason.startswith("faster, by less than 0.01")


def test_the_first_word_comes_at_four_blocks() -> None:
    for count in (1, 2, 3):
        found = Run().blocks(count, jitter({"x": 0.5})).verdict(last_look=False)
        assert (found.verdict, found.final, found.ci_low) == (Word.INCONCLUSIVE, False, None)
        assert "no verdict with fewer than 4" in found.reason
    assert Run().blocks(4, jitter({"x": 0.5})).verdict(last_look=False).final


def test_between_looks_the_session_goes_on() -> None:
    run = Run().blocks(5, jitter({"x": 0.98}, size=0.01))
    found = run.verdict(last_look=False)
    assert (found.verdict, found.final) == (Word.INCONCLUSIVE, False)
    assert found.reason.endswith("next look at 6 blocks")


def test_a_spent_budget_ends_in_what_it_would_take() -> None:
    found = Run().blocks(5, jitter({"x": 0.99}, size=0.03)).verdict()
    assert (found.verdict, found.final) == (Word.INCONCLUSIVE, True)
    assert found.minimal_detectable_effect is not None
    assert found.minimal_detectable_effect > 0.01
    assert found.blocks_needed is not None
    assert f"about {found.blocks_needed} blocks would decide" in found.reason


def test_precision_goes_on_after_the_verdict() -> None:
    times = jitter({"x": 0.9}, size=0.01)
    wide = Run(analysis=Analysis(precision=0.002)).blocks(7, times).verdict(last_look=False)
    assert (wide.verdict, wide.final) == (Word.FASTER, False)
    assert Run(analysis=Analysis(precision=0.05)).blocks(7, times).verdict(last_look=False).final


def test_open_ended_has_no_looks_and_no_end() -> None:
    settings = Analysis(open_ended=True)
    assert Run(analysis=settings).blocks(11, jitter({"x": 0.9}, size=0.003)).verdict(last_look=False).final
    going = Run(analysis=settings).blocks(40, jitter({"x": 0.99}, size=0.05)).verdict(last_look=False)
    assert (going.verdict, going.final) == (Word.INCONCLUSIVE, False)


# ------------------------------------------------------------------------------------------------ what has no number


def test_every_declared_arm_has_a_row() -> None:
    run = Run(["a", "b", "c"], axes={"batch": (4, 8)})
    rows = run.judge().comparisons
    assert [(c.arm, dict(c.axes)) for c in rows] == [(a, {"batch": n}) for n in (4, 8) for a in "abc"]
    assert {c.verdict for c in rows} == {Word.NOT_RUN}


def test_a_skip_is_a_row_with_its_reason() -> None:
    found = Run(["x", "y"]).skip("y", "needs 2 CUDA devices, this machine has 0").blocks(0, jitter({})).verdict("y")
    assert (found.verdict, found.final) == (Word.NOT_RUN, True)
    assert found.reason == "not applicable: needs 2 CUDA devices, this machine has 0"


@pytest.mark.parametrize("outcome", [Outcome.OOM_DEVICE, Outcome.OOM_HOST, Outcome.TIMED_OUT])
def test_a_failed_arm_is_not_run(outcome: Outcome) -> None:
    run = Run(["x", "y"])
    for block in range(4):
        run.trial("", block, 0)
        run.trial("x", block, 1, 0.9)
    run.trial("y", 0, 2, outcome=outcome, reason="it failed")
    assert run.verdict("y").verdict is Word.NOT_RUN
    assert "it failed" in run.verdict("y").reason
    assert run.verdict("x").verdict is Word.FASTER


@pytest.mark.parametrize("good", [1, 2, 4])
@pytest.mark.parametrize(("side", "who"), [("x", ""), ("", "the baseline: ")])
def test_a_failure_after_good_blocks_is_named_whatever_the_verdict(good: int, side: str, who: str) -> None:
    run = Run(["x", "y"]).blocks(good, jitter({"x": 0.9, "y": 0.9}))
    for position, arm in enumerate(["x", ""] if side == "" else ["", "x"]):
        failed = {"outcome": Outcome.OOM_DEVICE, "reason": "2 GiB too many"} if arm == side else {}
        run.trial(arm, good, position, **failed)
    found = run.verdict()
    said = f"{who}oom device in 1 of {good + 1} blocks: 2 GiB too many"
    assert found.blocks == good
    assert found.verdict is (Word.FASTER if good == 4 else Word.INCONCLUSIVE)
    assert found.reason.startswith(said) == (good < 4)
    assert (said in found.notes) == (good == 4)
    if side == "x":
        others = run.verdict("y")
        assert not any("oom" in words for words in (others.reason, *others.notes))


def test_a_crash_is_final_after_its_retry() -> None:
    run = Run()
    run.trial("", 0, 0)
    run.trial("x", 0, 1, outcome=Outcome.CRASHED, reason="signal 11")
    assert not run.verdict(last_look=False).final
    run.trial("x", 0, 1, outcome=Outcome.CRASHED, reason="signal 11", attempt=1)
    assert run.verdict(last_look=False).final


def test_a_retry_takes_the_place_of_what_failed() -> None:
    run = Run().blocks(4, jitter({"x": 0.9}))
    run.records[0].outcome = Outcome.CRASHED
    copy = replace(run.records[0], outcome=Outcome.OK, attempt=1, trial_id="again", started_at="999999999")
    run.records.append(copy)
    run.windows["again"] = run.windows[run.records[0].trial_id]
    assert run.verdict().blocks == 4


def test_without_its_baseline_nothing_is_compared() -> None:
    run = Run()
    run.trial("", 0, 0, outcome=Outcome.OOM_HOST, reason="killed by the kernel")
    assert run.verdict().reason == "the baseline did not run: oom host: killed by the kernel"


@pytest.mark.parametrize("outcome", [Outcome.WRONG_NUMERICS, Outcome.NOT_COMPARABLE])
def test_wrong_work_withholds_the_number(outcome: Outcome) -> None:
    run = Run().blocks(6, jitter({"x": 0.5}))
    run.trial("x", None, None, outcome=outcome, reason="the loss differs", kind=Kind.NUMERICS)
    found = run.verdict()
    assert (found.verdict, found.speedup, found.final) == (Word.INVALID, None, True)
    assert [c.metric for c in run.judge().comparisons] == ["step_time"]


def test_a_treatment_that_did_not_apply_has_no_number() -> None:
    run = Run().blocks(6, jitter({"x": 0.5}))
    run.records[3].outcome, run.records[3].reason = Outcome.NOT_APPLIED, "no bfloat16 operator"
    run.records[3].arm, run.records[3].is_baseline = "x", False
    assert (run.verdict().verdict, run.verdict().speedup) == (Word.NOT_RUN, None)


# ------------------------------------------------------------------------------------------------ blocks


def test_a_disturbed_block_is_dropped_whole() -> None:
    run = Run(["x", "y"]).blocks(6, jitter({"x": 0.9}))
    next(r for r in run.records if r.block_index == 2 and r.arm == "y").outcome = Outcome.DISTURBED
    assert (run.verdict("x").blocks, run.verdict("x").dropped_blocks) == (5, 1)
    assert run.judge().dropped_blocks == 1


def test_too_many_dropped_blocks_are_invalid() -> None:
    run = Run().blocks(10, jitter({"x": 0.9}))
    for record in run.records:
        if record.block_index in (1, 4, 7):
            record.outcome = Outcome.DISTURBED
    found = run.verdict()
    assert (found.verdict, found.reason) == (Word.INVALID, "3 of 10 blocks were disturbed")


def test_an_unsteady_process_drops_its_block() -> None:
    run = Run().blocks(8, jitter({"x": 0.9}))
    slow = run.windows[run.records[5].trial_id]
    run.windows[run.records[5].trial_id] = {**slow, "host_ns": slow["host_ns"] * np.linspace(1, 1.5, 15)}
    assert (run.verdict().blocks, run.verdict().dropped_blocks) == (7, 1)


def test_both_arms_are_cut_at_the_later_start() -> None:
    run = Run().blocks(4, jitter({"x": 0.9}, size=0.001))
    for record in run.records:
        table = dict(run.windows[record.trial_id])
        table["host_ns"] = table["host_ns"].copy()
        table["host_ns"][:4] = table["host_ns"][:4] * (1.5 if record.arm else 1.0)
        if record.is_baseline:  # would move the mean of the baseline, were these windows kept
            table["host_ns"][2] = table["host_ns"][2] * 1.004
        run.windows[record.trial_id] = table
    assert run.verdict(metric="step_time_mean").speedup == pytest.approx(1 / 0.9, rel=2e-3)


def test_an_interrupted_block_that_was_run_again_counts_once() -> None:
    run = Run(["x", "y"]).blocks(4, jitter({"x": 0.9}))
    del run.records[-1]
    run.blocks(3, jitter({"x": 0.9}), session="s2", first=3)
    assert run.verdict("x").blocks == 6
    assert run.judge().sessions == ("s1", "s2")


def test_unknown_environments_never_agree() -> None:
    run = Run().blocks(6, jitter({"x": 0.9}))
    for record in run.records:
        record.base_env_id = ""
    assert run.verdict().verdict is Word.INVALID


def test_only_the_latest_code_counts() -> None:
    run = Run().blocks(4, jitter({"x": 0.5}), code_id="old").blocks(4, jitter({"x": 0.9}), first=4, code_id="new")
    found = run.verdict()
    assert found.blocks == 4
    assert found.speedup == pytest.approx(1 / 0.9, rel=1e-2)
    assert "4 blocks left out: measured with other code or another environment" in found.notes


def test_hardware_classes_are_never_pooled() -> None:
    run = Run().blocks(4, jitter({"x": 0.9})).blocks(4, jitter({"x": 0.8}), session="s2", hardware_id="other")
    found = [c for c in run.judge().comparisons if c.primary]
    assert [(c.hardware_id, round(c.speedup or 0, 2)) for c in found] == [("hardware", 1.11), ("other", 1.25)]


def test_other_experiments_are_ignored() -> None:
    run = Run().blocks(4, jitter({"x": 0.9}))
    run.trial("x", 9, 0, 5.0, spec_id="another")
    assert run.verdict().blocks == 4


# ------------------------------------------------------------------------------------------------ many, notes, controls


def test_a_family_pays_for_its_size() -> None:
    times = jitter({"a": 0.97}, size=0.004)
    alone = Run(["a"]).blocks(6, times).verdict("a")
    many = Run([*"abcdefghij"], baselines=1).blocks(6, times).verdict("a")
    assert alone.ci_level is not None
    assert many.ci_level is not None
    assert many.ci_level > alone.ci_level
    assert alone.adjusted_p is not None
    assert alone.verdict is Word.FASTER


def test_exact_memory_needs_no_statistics() -> None:
    run = Run().blocks(4, jitter({}))
    for record in run.records:
        record.peak_host_bytes = 900_000 if record.arm else 1_000_000
    found = run.verdict(metric="peak_memory")
    assert (found.verdict, found.reason) == (Word.LOWER, "exact: all replicates agree")
    assert found.ci_low == found.ci_high == pytest.approx(10 / 9)


def test_utilization_is_described_and_not_tested() -> None:
    run = Run().blocks(4, jitter({}), cpu_utilization=0.8)
    found = run.verdict(metric="cpu_utilization")
    assert (found.verdict, found.before, found.speedup) == (Word.DESCRIPTIVE, pytest.approx(0.8), None)


def test_the_baseline_is_tested_against_itself_at_the_end() -> None:
    def drifting(arm: str, block: int, position: int) -> float:
        # the two baselines differ by 3 % whichever comes first: something is wrong with the machine
        second = position == 2 if block % 2 == 0 else position == 1
        return 1.03 if arm == "" and second == (block % 2 == 0) else jitter({"x": 0.9}, 0.001)(arm, block, position)

    run = Run(["x"], baselines=2).blocks(8, drifting)
    assert all(t.severity != "invalid" for t in run.judge(last_look=False).threats) or run.verdict().final
    healthy = Run(["x"], baselines=2).blocks(8, jitter({"x": 0.9}))
    assert healthy.verdict().verdict is Word.FASTER
    assert not [t for t in healthy.judge().threats if t.severity == "invalid"]


def test_a_failed_negative_control_makes_the_run_invalid() -> None:
    run = Run(["x"], baselines=2)
    rng = np.random.default_rng(0)
    for block in range(8):
        order = ["", "x", ""] if block % 2 else ["", "", "x"]
        slow = block % 2  # the replicate that plays the treated part is slower each time
        seen = 0
        for position, arm in enumerate(order):
            late = arm == "" and seen == 1
            seen += arm == ""
            time = 0.9 if arm else (1.05 if late != bool(slow) else 1.0)
            run.trial(arm, block, position, time * math.exp(0.001 * rng.standard_normal()))
    found = run.verdict()
    assert found.verdict is Word.INVALID
    assert found.reason.startswith("negative control failed")
    assert run.verdict(last_look=False).verdict is not Word.NOT_RUN


def test_a_tail_that_changes_otherwise_is_named() -> None:
    run = Run().blocks(8, jitter({"x": 0.95}, size=0.001))
    for record in run.records:
        if record.arm == "x":
            host = run.windows[record.trial_id]["host_ns"].copy()
            host[7] *= 4
            run.windows[record.trial_id] = {**run.windows[record.trial_id], "host_ns": host}
    assert any(note.startswith("TAIL EFFECT") for note in run.verdict().notes)


def test_three_sessions_have_a_prediction_interval() -> None:
    run = Run()
    for number, effect in enumerate((0.90, 0.92, 0.91)):
        run.blocks(4, jitter({"x": effect}, size=0.001), session=f"s{number}", first=4 * number)
    assert any("3 sessions; 95 % prediction interval" in note for note in run.verdict().notes)


def test_two_kinds_of_processes_are_named() -> None:
    run = Run().blocks(12, lambda arm, block, _: (1.2 if block % 3 == 0 else 1.0) if arm else 1 + 0.001 * (block % 2))
    assert any(note.startswith("bimodal processes: 4 of 12") for note in run.verdict().notes)


def test_the_variance_split_recommends_windows() -> None:
    experiment = Experiment(workloads=("w",), arms=("x",), preset="tiny")
    noise = replace(PROFILES["quiet"], process=0.01, window=0.02, autocorrelation=0.5)
    run = simulate(experiment, "s", {}, noise, blocks=28, windows=30, seed=3)
    from harness.judge import judge

    (row,) = judge(experiment, "s", run.records, run.windows, last_look=True).variance
    assert row["process_sd"] == pytest.approx(0.01, rel=0.35)
    assert row["window_sd"] == pytest.approx(0.02, rel=0.1)
    assert row["autocorrelation"] == pytest.approx(0.5, abs=0.1)
    # by hand: sqrt(cost ratio 2 s / 0.1 s * tau 3 * (0.02 / 0.01)^2) = 15.5
    assert 8 <= float(row["recommended_windows"]) <= 30


def test_judging_twice_gives_the_same() -> None:
    run = Run(["x", "y"], baselines=2).blocks(9, jitter({"x": 0.98}))
    assert repr(run.judge()) == repr(run.judge())


def test_a_thousand_cells_are_judged_in_time() -> None:
    arms = tuple(f"a{index}" for index in range(20))
    experiment = Experiment(workloads=("w",), arms=arms, preset="tiny", axes={"batch": (1, 2, 3, 4, 5)})
    run = simulate(experiment, "s", {}, PROFILES["base"], blocks=28, seed=1)
    from harness.judge import judge

    started = time.process_time()
    found = judge(experiment, "s", run.records, run.windows, last_look=True)
    seconds = time.process_time() - started
    assert sum(c.primary for c in found.comparisons) == 100
    # a tenth of a thousand cells, which may take 20 s; twice that where another process shares the core
    assert seconds < 4.0


@pytest.mark.full
def test_a_thousand_cells_of_28_blocks_are_judged_within_twenty_seconds_and_twice_alike() -> None:
    arms = tuple(f"a{index}" for index in range(20))
    axes = {"batch": tuple(range(50))}
    experiment = Experiment(workloads=("w",), arms=arms, preset="tiny", axes=axes)
    run = simulate(experiment, "s", {}, PROFILES["base"], blocks=28, seed=1)
    from harness.judge import judge

    started = time.process_time()
    found = judge(experiment, "s", run.records, run.windows, last_look=True)
    assert time.process_time() - started < 20
    assert sum(c.primary for c in found.comparisons) == 1000
    assert found == judge(experiment, "s", run.records, run.windows, last_look=True)


def test_judging_twice_gives_the_same_bytes_in_whatever_order_the_trials_come() -> None:
    from harness.judge import judge

    run = Run(arms=("x", "y")).blocks(9, jitter({"x": 0.97}))
    first, again = (repr(judge(run.experiment, "spec", run.records, run.windows, last_look=True)) for _ in range(2))
    assert first == again
    backwards = judge(run.experiment, "spec", run.records[::-1], run.windows, last_look=True)
    assert repr(backwards.comparisons) == repr(run.judge().comparisons)
