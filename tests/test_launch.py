"""Real children: how each way to end becomes a typed record, and that nothing of theirs is left."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from harness import identity
from harness.launch import Launched, LocalExecutor, child_environment
from harness.plan import resolved_measure
from harness.record import Outcome
from harness.registry import Registry, load_registry
from harness.spec import Arm, Cell, Kind, Measure, ProcessChange, Trial, Use

PLUGINS = Path(__file__).parent / "plugins"
PLAIN = Arm()


@pytest.fixture(scope="module")
def plugged() -> Registry:
    return load_registry([PLUGINS])


def trial(plugged: Registry, folder: Path, fault: str = "none", arm: Arm = PLAIN, rank_count: int = 1) -> Trial:
    cell = Cell(
        workload="faulty",
        params={"fault": fault},
        preset="tiny",
        mode="train",
        input="loader",
        data_digest="",
        device="cpu",
        arm=arm,
        kind=Kind.TIMING,
        measure=resolved_measure(Measure(window_ms=5), "cpu"),
    )
    name = identity.new_id()
    return Trial(
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
        rank_count=rank_count,
        data_folder="",
        items_in_data=0,
        work_folder=str(folder / name),
        compile_cache=str(folder / "compile"),
        workload_source=plugged.workload_source("faulty"),
        treatment_sources=tuple(plugged.treatment_source(name) for name in arm.names),
    )


def descendants() -> set[psutil.Process]:
    """What runs below this process; other tests keep a browser and servers there."""
    return set(psutil.Process().children(recursive=True))


def run(plugged: Registry, folder: Path, fault: str, timeout_s: float = 30, **more: object) -> Launched:
    others = descendants()
    launched = LocalExecutor().run(trial(plugged, folder, fault, **more), ProcessChange(), timeout_s)  # type: ignore[arg-type]
    assert descendants() <= others
    assert list(folder.glob("0*")) == []
    return launched


def test_a_trial_gives_windows_startup_and_work(plugged: Registry, tmp_path: Path):
    launched = run(plugged, tmp_path, "none")
    (rank,) = launched.ranks
    assert launched.outcome is Outcome.OK
    assert len(rank.windows) >= 15
    per_step = [window.host_ns / window.step_count for window in rank.windows]
    assert 2e6 < sorted(per_step)[len(per_step) // 2] < 4e6  # the step sleeps 2 ms
    assert rank.steps_asked == sum(window.step_count for window in rank.windows)
    assert rank.started_monotonic_ns is not None
    assert rank.ended_monotonic_ns is not None
    timed = sum(window.host_ns for window in rank.windows)
    assert timed <= rank.ended_monotonic_ns - rank.started_monotonic_ns < launched.duration_ns
    assert rank.startup_total_ns is not None
    assert 0 < rank.startup_total_ns < launched.duration_ns
    assert rank.peak_host_bytes is not None
    assert 5 << 20 < rank.peak_host_bytes < 500 << 20


@pytest.mark.parametrize(
    ("fault", "outcome", "reason"),
    [
        ("exception", Outcome.CRASHED, "ValueError: made to fail"),
        ("signal", Outcome.CRASHED, "killed by SIGSEGV"),
        ("exit", Outcome.CRASHED, "exit code 7"),
        ("memory", Outcome.OOM_HOST, "MemoryError"),
        ("not_applicable", Outcome.NOT_APPLICABLE, "made not to apply"),
    ],
)
def test_each_end_has_its_outcome(plugged: Registry, tmp_path: Path, fault: str, outcome: Outcome, reason: str):
    launched = run(plugged, tmp_path, fault)
    assert (launched.outcome, reason in launched.reason) == (outcome, True), launched
    assert all(not rank.windows for rank in launched.ranks)


@pytest.mark.parametrize("fault", ["hang", "stubborn"])
def test_a_child_that_hangs_is_killed_even_when_it_ignores_sigterm(plugged: Registry, tmp_path: Path, fault: str):
    started = time.monotonic()
    launched = run(plugged, tmp_path, fault, timeout_s=3)
    assert launched.outcome is Outcome.TIMED_OUT
    assert "after 3 s" in launched.reason
    assert time.monotonic() - started < 15


def test_a_daemon_that_a_child_leaves_is_ended(plugged: Registry, tmp_path: Path):
    assert run(plugged, tmp_path, "daemon").outcome is Outcome.OK


def test_a_treatment_without_effect_ends_not_applied_without_a_number(plugged: Registry, tmp_path: Path):
    launched = run(plugged, tmp_path, "none", arm=Arm((Use("does_nothing"),)))
    assert launched.outcome is Outcome.NOT_APPLIED
    assert launched.reason == "does_nothing: nothing in the runtime changed"
    assert launched.ranks[0].windows == ()
    assert launched.ranks[0].peak_host_bytes is None


def test_an_executable_that_is_missing_is_named(plugged: Registry, tmp_path: Path):
    launched = LocalExecutor().run(trial(plugged, tmp_path), ProcessChange(python="/nowhere/python"), 10)
    assert launched.outcome is Outcome.CRASHED
    assert "cannot start /nowhere/python" in launched.reason


def test_a_childs_environment_does_not_depend_on_the_parents(plugged: Registry, tmp_path: Path):
    asked = trial(plugged, tmp_path)
    plain = {"PATH": "/bin", "HOME": "/h"}
    loud = plain | {
        "OMP_NUM_THREADS": "7",
        "LD_PRELOAD": "x.so",
        "PYTHONPATH": "/evil",
        "TORCH_LOGS": "all",
        "SECRET": "1",
    }
    quiet_env = child_environment(asked, ProcessChange(), plain)
    assert child_environment(asked, ProcessChange(), loud) == quiet_env
    assert quiet_env["OMP_NUM_THREADS"] == "1"


def test_an_arm_overrides_threads_and_merges_allocator_keys(plugged: Registry, tmp_path: Path):
    change = ProcessChange().with_env("OMP_NUM_THREADS", "2").with_allocator("b", "2").with_allocator("a", "1")
    env = child_environment(trial(plugged, tmp_path), change, {})
    assert (env["OMP_NUM_THREADS"], env["MKL_NUM_THREADS"]) == ("2", "2")
    assert env["PYTORCH_CUDA_ALLOC_CONF"] == "a:1,b:2"
