"""Real ranks over gloo: they take the same steps, do their share of the work, and none outlives another."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import identity
from harness.arms import full_params, parse_arm, resolve
from harness.child.torch_side.collectives import communication_ns
from harness.collect import SessionIds, collect
from harness.judge import numerics
from harness.launch import Ending, Launched, LocalExecutor, explain
from harness.plan import resolved_measure
from harness.record import ChildRecord, Outcome, TrialRecord, Window
from harness.registry import Registry, load_registry
from harness.spec import Cell, Collective, Kernel, Kind, Measure, Op, Phase, ProcessChange, Trial
from tests.contracts import places, trying

PLUGINS = Path(__file__).parents[1] / "plugins"
IDS = SessionIds(base_env_id="e", hardware_id="h", machine_id="m", environment_id="n", device="cpu", cores=2)


@cache
def registry() -> Registry:
    return load_registry([PLUGINS])


def make_trial(written: str, folder: Path, kind: Kind = Kind.TIMING, **params: object) -> tuple[Trial, ProcessChange]:
    """The trial of an arm on the toy net, and how its process is started."""
    arm = resolve(parse_arm(written), registry().treatments, {"cores": 2, "gpus": 0})
    change = ProcessChange()
    for use in arm.uses:
        treatment = registry().treatments[use.name]
        if "process" in treatment.hooks:
            change = treatment.hooks["process"](change, None, **full_params(use, treatment))
    cell = Cell(
        workload="rows",
        params={"batch": 4, "fault": "none", **params},
        preset="tiny",
        mode="train",
        input="loader",
        data_digest="",
        device="cpu",
        arm=arm,
        kind=kind,
        measure=resolved_measure(Measure(windows=5, window_ms=2, timed_seconds=5), "cpu"),
    )
    name = identity.new_id()
    trial = Trial(
        trial_id=name,
        spec_id="s",
        session_id="x",
        cell=cell,
        cell_id=identity.cell_id(cell),
        is_baseline=not arm.uses,
        block_index=0,
        position=0,
        seed=0,
        device_index=None,
        threads=1,
        rank_count=change.ranks,
        data_folder="",
        items_in_data=64,
        work_folder=str(folder / name),
        compile_cache=str(folder / "compile"),
        workload_source=registry().workload_source("rows"),
        treatment_sources=tuple(registry().treatment_source(use.name) for use in arm.uses),
    )
    return trial, change


def launch(written: str, folder: Path, **params: object) -> Launched:
    trial, change = make_trial(written, folder, **params)
    return LocalExecutor().run(trial, change, 100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@cache
def measured(written: str, folder: Path) -> tuple[TrialRecord, list[Window], Launched]:
    trial, change = make_trial(written, folder)
    launched = LocalExecutor().run(trial, change, 100)
    record, windows = collect(trial, launched, IDS, "c", 0)
    counted = {Outcome.OK, Outcome.NOT_STEADY}  # which of them is a matter of what else the machine does
    assert record.outcome in counted, f"{record.reason} {launched.stderr_tail}"
    return record, windows, launched


def evidence(written: str, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(measured(written, folder)[0].evidence_json)
    return found[written.partition("(")[0]]  # type: ignore[no-any-return]


def test_two_ranks_do_twice_the_work_in_the_same_steps(folder: Path):
    one, _, _ = measured("", folder)
    two, windows, launched = measured("ddp", folder)
    assert one.items_per_step == 4
    assert two.items_per_step == 8
    assert (one.rank_count, two.rank_count) == (1, 2)
    by_rank = [[w for w in windows if w.rank == rank] for rank in (0, 1)]
    assert len(by_rank[0]) >= 5
    assert [(w.window_index, w.step_count) for w in by_rank[0]] == [(w.window_index, w.step_count) for w in by_rank[1]]
    slowest = [
        max(pair) / by_rank[0][0].step_count for pair in zip(*([w.host_ns for w in r] for r in by_rank), strict=True)
    ]
    assert two.raw_mean_window_ns == pytest.approx(sum(slowest) / len(slowest))
    losses = [rank.loss_after for rank in launched.ranks]
    assert losses[0] != losses[1], "the ranks were given the same data"
    assert two.loss_after == pytest.approx(sum(losses) / 2)  # type: ignore[arg-type]
    assert [rank["rank"] for rank in json.loads(two.ranks_json)] == [0, 1]
    assert (one.comm_bytes, one.ranks_json) == (None, "[]")


def test_compression_halves_the_bytes_counted(folder: Path):
    plain, _, _ = measured("ddp", folder)
    compressed, _, _ = measured("ddp(compress=bf16)", folder)
    parameters = 32 * 128 + 128 + 128 * 32 + 32
    assert plain.comm_bytes == 4 * parameters  # twice over the ring, half of it each time
    assert compressed.comm_bytes == plain.comm_bytes / 2
    assert plain.comm_ns is not None
    assert 0 < plain.comm_ns < 10**9


@pytest.mark.full
def test_zero1_divides_the_optimizers_state(folder: Path):
    state = 2 * 4 * evidence("ddp", folder)["gradients"]  # Adam keeps two numbers of four bytes
    assert evidence("zero1", folder)["state_bytes_by_rank"] == pytest.approx([state / 2] * 2, rel=0.05)


def test_fsdp_divides_parameters_gradients_and_state(folder: Path):
    found = evidence("fsdp", folder)
    assert found["parameters_by_rank"] == [found["parameters"] / 2] * 2
    assert found["state_bytes_by_rank"] == pytest.approx([4 * found["parameters"]] * 2, rel=0.05)
    assert measured("fsdp", folder)[0].comm_bytes == 6 * found["parameters"]  # gathered twice and scattered once


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param("exception", "made to fail on one rank", marks=pytest.mark.full),
        ("kill", "another rank had died"),
    ],
)
def test_a_rank_that_fails_ends_the_others_and_explains_them(fault: str, reason: str, folder: Path):
    others = set(psutil.Process().children(recursive=True))
    launched = launch("ddp", folder, fault=fault)
    assert launched.outcome is Outcome.CRASHED
    assert reason in launched.reason
    assert launched.duration_ns < 60e9
    assert set(psutil.Process().children(recursive=True)) <= others


def test_of_ranks_that_failed_the_first_explains_the_others(folder: Path):
    trial, _ = make_trial("ddp", folder)
    ranks = [
        ChildRecord(outcome=Outcome.CRASHED, reason="lost the other", written_monotonic_ns=2),
        ChildRecord(outcome=Outcome.OOM_DEVICE, reason="out of memory", rank=1, written_monotonic_ns=1),
    ]
    said = explain(trial, 1, ranks, Ending(Phase.TIMED), out_of_memory=False)
    assert said == (Outcome.OOM_DEVICE, "out of memory")


@cache
def followed(written: str, folder: Path) -> dict[str, Any]:
    trial, change = make_trial(written, folder, Kind.NUMERICS)
    launched = LocalExecutor().run(trial, change, 100)
    assert launched.outcome is Outcome.OK, f"{launched.reason} {launched.stderr_tail}"
    found = launched.ranks[0].numerics
    assert found is not None
    return found


@pytest.mark.parametrize(
    "written",
    [
        "ddp",
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in ("ddp(compress=bf16)", "fsdp", "fsdp(reshard=false)", "zero1", "ddp+gradient_accumulation")
        ),
    ],
)
def test_ranks_that_divide_a_batch_compute_what_one_process_computes(written: str, folder: Path):
    guard = numerics.check("close", followed(written, folder), followed("", folder), "cpu")
    assert not guard.wrong
    assert guard.allowed is not None
    assert guard.allowed < (5e-2 if "bf16" in written else 1e-4)


@pytest.mark.full
def test_ranks_that_exchange_no_gradients_are_caught(folder: Path):
    found = followed("ddp+never_exchanges", folder)
    assert numerics.check("close", found, followed("", folder), "cpu").wrong


@pytest.mark.full
@pytest.mark.parametrize("written", ["fsdp(reshard=false)", "ddp(compress=fp16)", "ddp(compress=powersgd)"])
def test_the_other_parameters_show_too(written: str, folder: Path):
    assert evidence(written, folder)["ranks"] == 2


@pytest.mark.parametrize(("arm", "scattered"), [("ddp", "allreduce"), ("fsdp", "reduce_scatter_base")])
def test_bytes_sent_by_a_ring(arm: str, scattered: str):
    whole = Collective(scattered, "float32", 1200)
    assert whole.sent_bytes(4) == (1800 if arm == "ddp" else 900)
    assert whole.sent_bytes(1) == 0


def test_time_of_exchanges_that_overlap_counts_once():
    ops = [Op("gloo:all_reduce", (), start, 10, 1, False) for start in (0, 5, 30)] + [Op("mm", (), 12, 50, 1, False)]
    assert communication_ns(ops, [Kernel("ncclDevKernel_AllReduce", 38, 10, 7), Kernel("gemm", 90, 5, 7)]) == 15 + 18


@pytest.mark.full
@pytest.mark.parametrize("arm", ["ddp+torch_compile", "fsdp+torch_compile", "compile_blocks+fsdp", "amp_bf16+ddp"])
def test_compiled_and_mixed_precision_models_are_divided_too(arm: str, folder: Path):
    small = (("layers", 1), ("width", 32), ("sequence_length", 8))
    record = trying.run(places.Place("gpt2_small", params=small).trial(arm, folder))
    assert record.outcome is Outcome.OK, record.reason
    assert set(record.evidence) == set(trying.resolved(arm).names)
