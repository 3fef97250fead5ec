"""The block loop on a fake executor and a real store: order, stopping, failures, resume, budget."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import identity
from harness.judge.types import Word
from harness.plan import make_plan
from harness.record import RETRIES, Fact, Outcome
from harness.registry import Registry
from harness.session import Options, Result, Session, session_ids
from harness.spec import Analysis, Experiment, Kind, Measure, Trial
from harness.store import Store
from tests.helpers import TOYS, FakeExecutor, SilentProgress, machine, registry, workload

EXPERIMENT = Experiment(
    name="toys",
    workloads=("toy",),
    arms=("alpha", "beta"),
    preset="tiny",
    numerics=False,
    analysis=Analysis(max_blocks=9),
)


def session(
    folder: Path, executor: FakeExecutor, experiment: Experiment = EXPERIMENT, known: Registry = TOYS, **options: Any
) -> Session:
    plan = make_plan(experiment, known, machine(packages={"torch": "2.14.1"}))
    store = Store(folder)
    spec_id = identity.spec_id(plan.experiment)
    store.write_spec(spec_id, "")
    return Session(
        plan=plan,
        registry=known,
        machine=machine(),
        store=store,
        executor=executor,
        progress=SilentProgress(),
        options=Options(cache=folder / "cache", **options),
        spec_id=spec_id,
        ids=session_ids(plan, machine(), "n1"),
    )


def verdicts(result: Result) -> dict[str, Word]:
    return {c.arm: c.verdict for c in result.judgement.comparisons if c.primary}


def timed(executor: FakeExecutor) -> list[Trial]:
    return [trial for trial in executor.trials if trial.cell.kind is Kind.TIMING]


def test_a_large_effect_is_found_and_its_arm_stops_being_measured(tmp_path: Path):
    executor = FakeExecutor(effects={"alpha": 0.5, "beta": 1.0}, noise=0.01)
    result = session(tmp_path, executor).run()
    assert verdicts(result)["alpha"] is Word.FASTER
    blocks = Counter(trial.cell.arm.names for trial in timed(executor))
    assert blocks[("alpha",)] < blocks[("beta",)] <= 11  # 9, and two that may replace blocks found unsteady
    assert blocks[("alpha",)] >= 4


def test_requests_are_judged_by_their_median_and_their_tail(tmp_path: Path):
    """Two verdicts an arm, both of the family; an arm stops when both are final."""
    requests = dataclasses.replace(EXPERIMENT, mode="infer", measure=Measure(protocol="requests"))
    result = session(tmp_path, FakeExecutor(effects={"alpha": 0.5, "beta": 2.0}, noise=0.01), requests).run()
    found = {(c.arm, c.metric): (c.verdict, c.final) for c in result.judgement.comparisons if c.primary}
    assert found == {
        (arm, metric): (word, True)
        for arm, word in (("alpha", Word.FASTER), ("beta", Word.SLOWER))
        for metric in ("latency_p50", "latency_p99")
    }
    exploratory = [(c.arm, c.metric) for c in result.judgement.comparisons if not c.primary]
    assert len(set(exploratory)) == len(exploratory), "each once"
    assert ("alpha", "step_time") in exploratory
    assert ("alpha", "latency_jitter") in exploratory


def test_too_few_requests_have_no_tail_and_the_verdict_says_so(tmp_path: Path):
    few = dataclasses.replace(EXPERIMENT, mode="infer", measure=Measure(protocol="requests", windows=20))
    result = session(tmp_path, FakeExecutor(effects={"alpha": 0.5, "beta": 2.0}, noise=0.01), few).run()
    found = {(c.arm, c.metric): c for c in result.judgement.comparisons if c.primary}
    assert found["alpha", "latency_p50"].verdict is Word.FASTER
    assert found["alpha", "latency_p99"].verdict is Word.NOT_RUN
    assert "at least 100 of them" in found["alpha", "latency_p99"].reason


def test_the_baseline_and_what_compiles_are_prepared_before_the_blocks(tmp_path: Path):
    experiment = dataclasses.replace(EXPERIMENT, arms=("alpha", "compiler"))
    session(tmp_path, FakeExecutor(effects={"alpha": 0.5, "compiler": 2.0}), experiment).run()
    records = Store(tmp_path).trials()
    assert [(record.kind, record.arm) for record in records[:2]] == [("prepare", ""), ("prepare", "compiler")]
    assert {record.kind for record in records[2:]} == {"timing"}


def test_every_trial_is_stored_with_its_place(tmp_path: Path):
    executor = FakeExecutor(effects={"alpha": 0.5, "beta": 2.0})
    session(tmp_path, executor).run()
    records = Store(tmp_path).trials()
    assert {record.trial_id for record in records} == {trial.trial_id for trial in executor.trials}
    for block in range(4):
        rows = [record for record in records if record.block_index == block]
        assert sorted(record.position for record in rows) == [0, 1, 2, 3]
        assert Counter(record.arm for record in rows) == {"": 2, "alpha": 1, "beta": 1}
        assert len({record.seed for record in rows}) == 1


def test_an_arm_that_fails_is_dropped_and_the_others_go_on(tmp_path: Path):
    def outcome(trial: Trial) -> Outcome:
        return Outcome.OOM_DEVICE if "alpha" in trial.cell.arm.names else Outcome.OK

    executor = FakeExecutor(effects={"beta": 0.5}, outcomes=outcome)
    result = session(tmp_path, executor).run()
    assert verdicts(result) == {"alpha": Word.NOT_RUN, "beta": Word.FASTER}
    reason = next(c.reason for c in result.judgement.comparisons if c.arm == "alpha" and c.primary)
    assert "oom_device" in reason or "memory" in reason
    assert result.failures == 1
    assert sum("alpha" in trial.cell.arm.names for trial in executor.trials) == 1


def test_a_crash_is_tried_once_more(tmp_path: Path):
    seen: list[str] = []

    def outcome(trial: Trial) -> Outcome:
        seen.append(trial.trial_id)
        return Outcome.CRASHED if len(seen) == 6 else Outcome.OK

    executor = FakeExecutor(effects={"alpha": 0.5, "beta": 2.0}, outcomes=outcome)
    result = session(tmp_path, executor).run()
    assert set(verdicts(result).values()) == {Word.FASTER, Word.SLOWER}
    crashed = [record for record in Store(tmp_path).trials() if record.outcome is Outcome.CRASHED]
    assert len(crashed) == 1
    again = [
        r
        for r in Store(tmp_path).trials()
        if (r.block_index, r.position) == (crashed[0].block_index, crashed[0].position)
    ]
    assert [record.attempt for record in again] == [0, 1]


def test_a_disturbed_trial_is_tried_again_and_the_verdict_does_not_hear_of_it(tmp_path: Path):
    disturbed: list[str] = []

    def load(trial: Trial) -> float:
        if trial.block_index == 1 and not disturbed:
            disturbed.append(trial.trial_id)
        return 0.5 if trial.trial_id in disturbed else 0.0

    result = session(tmp_path, FakeExecutor(effects={"alpha": 0.5, "beta": 2.0}, foreign_cores=load)).run()
    rows = [record for record in Store(tmp_path).trials() if record.outcome is Outcome.DISTURBED]
    assert [row.trial_id for row in rows] == disturbed
    assert rows[0].reason == "other processes used 0.50 cores while it was timed; the limit is 0.1"
    assert set(verdicts(result).values()) == {Word.FASTER, Word.SLOWER}
    assert result.failures == 0


def test_a_machine_that_is_never_quiet_gives_no_verdict(tmp_path: Path):
    experiment = dataclasses.replace(EXPERIMENT, arms=("alpha",), analysis=Analysis(max_blocks=4))
    result = session(tmp_path, FakeExecutor(effects={"alpha": 0.5}, foreign_cores=lambda trial: 0.5), experiment).run()
    assert verdicts(result) == {"alpha": Word.INVALID}


def test_a_failed_preparation_is_tried_again_by_the_next_run(tmp_path: Path):
    session(tmp_path, FakeExecutor(outcomes=lambda trial: Outcome.TIMED_OUT)).run()
    result = session(tmp_path, FakeExecutor(effects={"alpha": 0.5, "beta": 2.0})).run()
    assert verdicts(result) == {"alpha": Word.FASTER, "beta": Word.SLOWER}
    assert result.failures == 0


def test_without_its_baseline_nothing_is_compared(tmp_path: Path):
    executor = FakeExecutor(outcomes=lambda trial: Outcome.OK if trial.cell.arm.names else Outcome.OOM_HOST)
    result = session(tmp_path, executor).run()
    assert set(verdicts(result).values()) == {Word.NOT_RUN}
    assert len(executor.trials) == 1


def test_what_the_baseline_shows_already_is_not_applicable(tmp_path: Path):
    executor = FakeExecutor(effects={"beta": 0.5}, already_so={"alpha": {"seen": "yes"}})
    result = session(tmp_path, executor).run()
    assert verdicts(result) == {"alpha": Word.NOT_RUN, "beta": Word.FASTER}
    reason = next(c.reason for c in result.judgement.comparisons if c.arm == "alpha" and c.primary)
    assert "already so" in reason
    assert not any("alpha" in trial.cell.arm.names for trial in timed(executor))


def test_a_check_tries_every_arm_once_and_times_nothing(tmp_path: Path):
    executor = FakeExecutor(already_so={"alpha": {"seen": "yes"}})
    session(tmp_path, executor).check()
    assert [(trial.cell.kind, trial.cell.arm.names) for trial in executor.trials] == [
        (Kind.PREPARE, ()),
        (Kind.PREPARE, ("beta",)),
    ]


def test_arms_with_enough_blocks_make_way_and_go_on_later(tmp_path: Path):
    executor = FakeExecutor(effects={"alpha": 1.0, "beta": 1.0}, noise=0.05)
    for wanted in (4, 6):
        result = session(tmp_path, executor, blocks=wanted).run()
        assert [c.blocks for c in result.judgement.comparisons if c.primary] == [wanted, wanted]


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the session may catch it."""


@pytest.mark.parametrize("after", [1, 3, 5, 8, 13])
def test_running_again_repeats_no_complete_block_and_ends_as_if_uninterrupted(tmp_path: Path, after: int):
    def die(trial: Trial) -> None:
        if len(first.trials) == after:
            raise Killed

    effects = {"alpha": 0.9, "beta": 1.0}
    first = FakeExecutor(effects=effects, before_trial=die)
    with pytest.raises(Killed):
        session(tmp_path / "a", first).run()
    before = {record.trial_id for record in Store(tmp_path / "a").trials()}
    second = FakeExecutor(effects=effects)
    resumed = session(tmp_path / "a", second).run()
    whole = session(tmp_path / "b", FakeExecutor(effects=effects)).run()
    assert verdicts(resumed) == verdicts(whole)
    speedups = [[c.speedup for c in result.judgement.comparisons if c.primary] for result in (resumed, whole)]
    assert speedups[0] == speedups[1]
    assert before <= {record.trial_id for record in Store(tmp_path / "a").trials()}
    complete = (after - 1) // 4
    assert min((t.block_index for t in timed(second) if t.block_index is not None), default=complete) == complete


def test_a_finished_experiment_measures_nothing_more(tmp_path: Path):
    session(tmp_path, FakeExecutor(effects={"alpha": 0.5, "beta": 2.0})).run()
    again = FakeExecutor()
    session(tmp_path, again).run()
    assert again.trials == []


def test_a_new_session_measures_again_after_the_old_blocks(tmp_path: Path):
    first, again = (FakeExecutor(effects={"alpha": 0.5, "beta": 2.0}) for _ in range(2))
    session(tmp_path, first).run()
    session(tmp_path, again, new_session=True).run()
    old, new = ([trial.block_index or 0 for trial in timed(executor)] for executor in (first, again))
    assert max(old) < min(new) <= max(old) + 2
    assert min(new) % 2 == 0  # so that the mirrored orders stay paired


@pytest.mark.parametrize(
    ("outcome", "bad_block", "after"),
    [(Outcome.OOM_DEVICE, 0, 8), (Outcome.OOM_DEVICE, 1, 12), (Outcome.CRASHED, 1, 8), (Outcome.CRASHED, 1, 12)],
)
def test_running_again_leaves_out_what_failed_for_good(tmp_path: Path, outcome: Outcome, bad_block: int, after: int):
    def fail(trial: Trial) -> Outcome:
        return outcome if "alpha" in trial.cell.arm.names and trial.block_index == bad_block else Outcome.OK

    def die(trial: Trial) -> None:
        if len(first.trials) == after:
            raise Killed

    first, second, whole = (FakeExecutor(effects={"alpha": 0.9}, outcomes=fail) for _ in range(3))
    first.before_trial = die
    with pytest.raises(Killed):
        session(tmp_path / "a", first).run()
    result = session(tmp_path / "a", second).run()
    uninterrupted = session(tmp_path / "b", whole).run()
    assert verdicts(result) == verdicts(uninterrupted)
    assert result.failures == uninterrupted.failures == 1
    interrupted = [trial.block_index for trial in timed(first)][-1]
    assert not {t.block_index for t in timed(first)} - {interrupted} & {t.block_index for t in timed(second)}
    failed = [trial for trial in timed(first) if fail(trial) is outcome]
    if len(failed) > RETRIES.get(outcome, 0):  # and not killed before it was tried as often as it may be
        assert not any("alpha" in trial.cell.arm.names for trial in timed(second))


def test_a_new_session_tries_again_what_failed(tmp_path: Path):
    fail = FakeExecutor(outcomes=lambda trial: Outcome.OOM_HOST if "alpha" in trial.cell.arm.names else Outcome.OK)
    session(tmp_path, fail).run()
    assert verdicts(session(tmp_path, FakeExecutor(effects={"alpha": 0.5})).run())["alpha"] is Word.NOT_RUN
    again = session(tmp_path, FakeExecutor(effects={"alpha": 0.5}), new_session=True)
    assert verdicts(again.run())["alpha"] is Word.FASTER


def test_an_arm_that_turns_out_not_to_apply_is_tried_once(tmp_path: Path):
    def outcome(trial: Trial) -> Outcome:
        return Outcome.NOT_APPLICABLE if "alpha" in trial.cell.arm.names else Outcome.OK

    executor = FakeExecutor(effects={"beta": 0.5}, outcomes=outcome)
    result = session(tmp_path, executor).run()
    assert verdicts(result) == {"alpha": Word.NOT_RUN, "beta": Word.FASTER}
    assert result.failures == 0
    assert sum("alpha" in trial.cell.arm.names for trial in executor.trials) == 1


def test_earlier_trials_of_other_work_are_counted_and_explained(tmp_path: Path):
    def known_as(torch: str) -> Session:
        made = session(tmp_path, FakeExecutor(effects={"alpha": 0.5, "beta": 0.5}))
        facts = [Fact(path="torch.version", value=torch, kind="identity", source="x"), Fact(path="a", value=torch)]
        environment_id = made.store.write_environment(facts)
        made.ids = dataclasses.replace(made.ids, base_env_id=f"e{torch}", environment_id=environment_id)
        return made

    known_as("2.14.1").run()
    again = known_as("2.15.0")
    result = again.run()
    assert isinstance(again.progress, SilentProgress)
    before = len(Store(tmp_path).trials()) - len(again.log.records)
    explained = f"{before} earlier trials are of other work and do not count here: torch.version 2.14.1 -> 2.15.0"
    assert again.progress.notes[0] == explained
    assert verdicts(result)["alpha"] is Word.FASTER


def run_against_the_clock(folder: Path, budget_s: float, seconds: Callable[[Trial], float]) -> tuple[Result, float]:
    now = [0.0]

    def tick(trial: Trial) -> None:
        now[0] += seconds(trial)

    executor = FakeExecutor(effects={"alpha": 0.5}, before_trial=tick, seconds=seconds)
    made = session(folder, executor, budget_s=budget_s)
    made.clock = lambda: now[0]
    return made.run(), now[0]


def test_a_spent_budget_ends_in_words(tmp_path: Path):
    result, took = run_against_the_clock(tmp_path, 130.0, lambda trial: 10.0)
    assert result.stopped_by == "budget"
    assert took <= 130
    assert set(verdicts(result).values()) == {Word.INCONCLUSIVE}
    reasons = [c.reason for c in result.judgement.comparisons if c.primary]
    assert all("block" in reason for reason in reasons), reasons


def slow_alpha(trial: Trial) -> float:
    return 100.0 if "alpha" in trial.cell.arm.names else 10.0


@pytest.mark.parametrize("budget_s", [60, 150, 260, 400])
def test_a_budget_is_overrun_by_no_more_than_the_first_trial_of_an_arm(tmp_path: Path, budget_s: int):
    result, took = run_against_the_clock(tmp_path / "first", budget_s, slow_alpha)
    assert result.stopped_by == "budget"
    assert took <= max(
        budget_s * 1.1, budget_s + 100 - 10
    )  # that alpha takes longer than the others has to be found out
    if any(record.arm == "alpha" for record in Store(tmp_path / "first").trials()):
        _, took = run_against_the_clock(tmp_path / "first", budget_s, slow_alpha)
        assert took <= budget_s * 1.1  # now it is known


def test_a_skip_is_one_row_however_often_the_command_runs(tmp_path: Path):
    experiment = dataclasses.replace(EXPERIMENT, arms=("alpha", "gpu_only"))
    for _ in range(2):
        result = session(tmp_path, FakeExecutor(effects={"alpha": 0.5}), experiment).run()
    rows = [record for record in Store(tmp_path).trials() if record.arm == "gpu_only"]
    assert [(row.outcome, row.block_index) for row in rows] == [(Outcome.NOT_APPLICABLE, None)]
    assert verdicts(result)["gpu_only"] is Word.NOT_RUN


TORCHY = dataclasses.replace(
    workload(
        "torchy", plain=None, presets={"tiny": {"batch": 4, "dropout": 0.1}, "small": {"batch": 8, "dropout": 0.1}}
    ),
)
WITH_TORCH = registry(list(TOYS.treatments.values()), [TORCHY])


def losses(trial: Trial, wrong: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a numerics trial of this arm found: half the losses of the plain arm where it is wrong."""
    values = [[0.5 if set(trial.cell.arm.names) & set(wrong) else 1.0]] * 20
    found: dict[str, Any] = {"values": values, "dtypes": ["float32"], "shape": []}
    return found if trial.cell.arm.uses else {**found, "reference": found, "echoes": []}


def numerics_session(folder: Path, executor: FakeExecutor, **experiment: Any) -> Session:
    settings = {"workloads": ("torchy",), "preset": "small", "numerics": True, **experiment}
    return session(folder, executor, dataclasses.replace(EXPERIMENT, **settings), known=WITH_TORCH)


def test_an_arm_that_computes_something_else_is_not_timed_and_gets_no_verdict(tmp_path: Path):
    executor = FakeExecutor(effects={"alpha": 0.5}, numerics=lambda trial: losses(trial, wrong=("alpha",)))
    result = numerics_session(tmp_path, executor).run()
    assert verdicts(result)["alpha"] is Word.INVALID
    assert result.failures == 1, "the numerics trial; the row that stands for the arm is no second failure"
    assert "alpha" not in {name for trial in timed(executor) for name in trial.cell.arm.names}
    withheld = [record for record in Store(tmp_path).trials() if record.outcome is Outcome.WRONG_NUMERICS]
    assert {record.kind for record in withheld} == {"numerics", "timing"}
    assert all("differs from double precision by 0.5 at step 1," in record.reason for record in withheld)


def test_numerics_are_checked_once_at_tiny_without_dropout_also_when_run_again(tmp_path: Path):
    executor = FakeExecutor(effects={"alpha": 0.5, "beta": 0.5}, numerics=losses)
    numerics_session(tmp_path, executor).run()
    numerics_session(tmp_path, executor).run()
    checked = [trial.cell for trial in executor.trials if trial.cell.kind is Kind.NUMERICS]
    assert [cell.arm.names for cell in checked] == [(), ("alpha",), ("beta",)]
    assert all(cell.preset == "tiny" and cell.params == {"batch": 4, "dropout": 0.0} for cell in checked)


def test_a_treated_baseline_is_checked_against_plain_pytorch(tmp_path: Path):
    executor = FakeExecutor(effects={"alpha": 0.5}, numerics=losses)
    numerics_session(tmp_path, executor, arms=("alpha",), baseline="beta").run()
    checked = [trial.cell.arm.names for trial in executor.trials if trial.cell.kind is Kind.NUMERICS]
    assert checked == [(), ("beta",), ("alpha",)]


def test_numerics_can_be_switched_off_and_the_comparison_says_so(tmp_path: Path):
    executor = FakeExecutor(effects={"alpha": 0.5, "beta": 0.5})
    result = numerics_session(tmp_path, executor, numerics=False).run()
    assert all(trial.cell.kind is not Kind.NUMERICS for trial in executor.trials)
    assert all("numerics not checked: switched off" in c.notes for c in result.judgement.comparisons if c.primary)


def test_a_precision_is_measured_for_after_the_verdict(tmp_path: Path):
    analysis = Analysis(max_blocks=28, precision=0.009)
    experiment = dataclasses.replace(EXPERIMENT, arms=("alpha",), analysis=analysis)
    plain = session(tmp_path / "a", executor := FakeExecutor(effects={"alpha": 0.9}, noise=0.01)).run()
    precise = session(tmp_path / "b", more := FakeExecutor(effects={"alpha": 0.9}, noise=0.01), experiment).run()
    blocks = [len({trial.block_index for trial in timed(each)}) for each in (executor, more)]
    assert blocks[0] < blocks[1]
    assert verdicts(precise)["alpha"] is verdicts(plain)["alpha"] is Word.FASTER
    (alpha,) = [c for c in precise.judgement.comparisons if c.primary]
    assert alpha.ci_low is not None
    assert alpha.ci_high is not None
    assert (alpha.ci_high / alpha.ci_low) ** 0.5 - 1 <= analysis.precision


def test_a_precision_that_the_blocks_do_not_reach_is_said_to_be_missing(tmp_path: Path):
    experiment = dataclasses.replace(EXPERIMENT, arms=("alpha",), analysis=Analysis(max_blocks=4, precision=0.001))
    result = session(tmp_path, FakeExecutor(effects={"alpha": 0.5}, noise=0.01), experiment).run()
    (alpha,) = [c for c in result.judgement.comparisons if c.primary]
    assert alpha.verdict is Word.FASTER
    assert "0.10% is asked for" in alpha.reason


def test_an_open_ended_run_decides_between_the_looks_and_beyond_them(tmp_path: Path):
    analysis = Analysis(max_blocks=4, open_ended=True)
    experiment = dataclasses.replace(EXPERIMENT, analysis=analysis)
    executor = FakeExecutor(effects={"alpha": 0.8, "beta": 1.0}, noise=0.01)
    result = session(tmp_path, executor, experiment).run()
    assert verdicts(result) == {"alpha": Word.FASTER, "beta": Word.EQUIVALENT}
    blocks = Counter(trial.cell.arm.names for trial in timed(executor))
    assert blocks[("beta",)] > analysis.max_blocks


def test_identical_runs_are_measured_in_all_blocks_that_were_announced(tmp_path: Path):
    experiment = Experiment(
        name="aa", workloads=("toy", "conv_toy"), design="aa", replicates=4, preset="tiny",
        analysis=Analysis(max_blocks=6),
    )  # fmt: skip
    executor = FakeExecutor()
    result = session(tmp_path, executor, experiment).run()
    assert len(timed(executor)) >= 2 * 4 * 6  # and those of blocks that were not steady
    assert min(each.blocks for each in result.judgement.comparisons) >= 5
    assert [each.comparisons for each in result.judgement.calibrations] == [6, 6]
    assert all(trial.is_baseline for trial in timed(executor))
