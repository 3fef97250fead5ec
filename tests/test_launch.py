"""Real children: how each way to end becomes a typed record, and that nothing of theirs is left."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from harness import identity
from harness.launch import PHASE_LIMITS_S, Ending, Launched, LocalExecutor, child_environment, explain
from harness.plan import resolved_measure
from harness.record import ChildRecord, Outcome
from harness.registry import Registry, load_registry
from harness.spec import Arm, Cell, Kind, Measure, Phase, ProcessChange, Trial, Use

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
        ("signal", Outcome.CRASHED, "killed by SIGSEGV in first step"),
        ("exit", Outcome.CRASHED, "exit code 7 in first step"),
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
    assert launched.reason == "timed out in first step after 3 s, the limit of a whole trial"
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("fault", "phase"), [("hang_in_build", Phase.BUILD), ("hang", Phase.FIRST_STEP), ("hang_at_exit", Phase.EXIT)]
)
def test_a_phase_that_hangs_is_named(plugged: Registry, tmp_path: Path, fault: str, phase: Phase):
    executor = LocalExecutor(phase_limits_s={**PHASE_LIMITS_S, phase: 0.5})
    launched = executor.run(trial(plugged, tmp_path, fault), ProcessChange(), 30)
    if phase is Phase.EXIT:  # what it had said before it hung is the better reason
        assert (launched.outcome, launched.reason) == (Outcome.CRASHED, "ValueError: made to fail")
    else:
        assert launched.outcome is Outcome.TIMED_OUT
        assert launched.reason == f"timed out in {phase} after 0.5 s, the limit of this phase"
    assert launched.duration_ns < 15e9


def test_a_daemon_that_a_child_leaves_is_ended(plugged: Registry, tmp_path: Path):
    """It has left its session, its parent and its environment."""
    assert run(plugged, tmp_path, "daemon").outcome is Outcome.OK


@pytest.fixture
def small_memory(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """A command prefix that lets a child have 200 MB; the kernel kills it for more."""
    folder = Path("/sys/fs/cgroup/memory") if Path("/sys/fs/cgroup/memory").is_dir() else Path("/sys/fs/cgroup")
    group = folder / f"torch-trials-{os.getpid()}"
    try:
        group.mkdir()
        limit = group / "memory.max" if (group / "memory.max").exists() else group / "memory.limit_in_bytes"
        limit.write_text(str(200 << 20))
        for swap in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
            if (group / swap).exists():
                (group / swap).write_text(str(200 << 20) if "memsw" in swap else "0")
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield "sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"
    group.rmdir()


def test_what_the_kernel_kills_for_memory_is_out_of_host_memory(
    plugged: Registry, tmp_path: Path, small_memory: tuple[str, ...]
):
    change = ProcessChange(prefix=small_memory)
    launched = LocalExecutor().run(trial(plugged, tmp_path, "much_memory"), change, 30)
    assert launched.outcome is Outcome.OOM_HOST, launched
    assert launched.reason == "it was killed in first step because host memory ran out"
    assert LocalExecutor().run(trial(plugged, tmp_path), change, 30).outcome is Outcome.OK


def test_a_crash_while_memory_ran_out_is_out_of_memory(plugged: Registry, tmp_path: Path):
    """A loader worker, or another rank, was killed; what is left of the trial only sees that it is gone."""
    asked = trial(plugged, tmp_path, rank_count=2)
    said = ChildRecord(outcome=Outcome.CRASHED, reason="worker 1 is gone")
    ending = Ending(Phase.TIMED)
    assert explain(asked, 1, [said], ending, out_of_memory=False) == (Outcome.CRASHED, "worker 1 is gone")
    outcome, reason = explain(asked, 1, [said], ending, out_of_memory=True)
    assert (outcome, reason) == (Outcome.OOM_HOST, "host memory ran out, and then: worker 1 is gone")


@pytest.mark.parametrize("how", ["hangs", "killed"])
def test_a_loader_worker_that_hangs_or_is_killed_ends_the_trial(plugged: Registry, tmp_path: Path, how: str):
    arm = Arm((Use("loader_workers", (("workers", 2),)), Use("stuck_worker", (("how", how),))))
    made = trial(plugged, tmp_path, arm=arm)
    cell = dataclasses.replace(made.cell, workload="rows", params={"batch": 4, "fault": "none"})
    made = dataclasses.replace(made, cell=cell, items_in_data=64, workload_source=plugged.workload_source("rows"))
    others = descendants()
    limits = dict.fromkeys(Phase, 120.0) | {Phase.BUILD: 2.0, Phase.FIRST_STEP: 2.0}
    launched = LocalExecutor(phase_limits_s=limits).run(made, ProcessChange(), 200)
    assert descendants() <= others
    if how == "hangs":
        assert launched.outcome is Outcome.TIMED_OUT, launched
        assert launched.reason == "timed out in build after 2 s, the limit of this phase"
    else:
        assert launched.outcome is Outcome.CRASHED, launched
        assert "worker" in launched.reason


def test_trials_of_two_threads_take_turns_and_do_not_end_each_other(plugged: Registry, tmp_path: Path):
    with ThreadPoolExecutor(2) as pool:
        made = [trial(plugged, tmp_path) for _ in range(2)]
        launched = list(pool.map(lambda each: LocalExecutor().run(each, ProcessChange(), 30), made))
    assert [each.outcome for each in launched] == [Outcome.OK] * 2, launched
    first, second = sorted(launched, key=lambda each: each.started_at)
    gap = datetime.fromisoformat(second.started_at) - datetime.fromisoformat(first.started_at)
    assert gap.total_seconds() * 1e9 >= first.duration_ns * 0.99


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


TELL = """
import json, os, sys
open(sys.argv[1], "w").write(json.dumps(dict(os.environ)))
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Writes down the environment that a child is started with, and becomes the child."""

LOUD = {
    "OMP_NUM_THREADS": "7", "MKL_NUM_THREADS": "7", "KMP_AFFINITY": "scatter", "OMP_PROC_BIND": "true",
    "LD_PRELOAD": "/nowhere/x.so", "PYTHONPATH": "/nowhere", "PYTHONOPTIMIZE": "2", "TORCH_LOGS": "all",
    "PYTORCH_CUDA_ALLOC_CONF": "x:1", "NVIDIA_TF32_OVERRIDE": "1", "CUDA_VISIBLE_DEVICES": "3", "SECRET": "1",
    "LANG": "de_DE", "TZ": "Asia/Tokyo",
}  # fmt: skip


def test_a_childs_environment_does_not_depend_on_the_parents(plugged: Registry, tmp_path: Path):
    """The whole of it, as two real children see it."""
    seen = []
    for number, more in enumerate(({}, LOUD)):
        telling = tmp_path / str(number)
        change = ProcessChange(prefix=(sys.executable, "-I", "-c", TELL, str(telling)))
        parent = {name: os.environ[name] for name in ("PATH", "HOME")} | more
        executor = LocalExecutor(environment=parent)
        assert executor.run(trial(plugged, tmp_path), change, 30).outcome is Outcome.OK
        environment = json.loads(telling.read_text())
        assert int(environment.pop("HARNESS_STARTED_NS")) > 0
        seen.append(environment)
    assert seen[0] == seen[1]
    assert seen[0]["OMP_NUM_THREADS"] == seen[0]["MKL_NUM_THREADS"] == "1"
    assert seen[0]["CUDA_VISIBLE_DEVICES"] == ""  # a trial on the CPU


def test_an_arm_overrides_threads_and_merges_allocator_keys(plugged: Registry, tmp_path: Path):
    change = ProcessChange().with_env("OMP_NUM_THREADS", "2").with_allocator("b", "2").with_allocator("a", "1")
    env = child_environment(trial(plugged, tmp_path), change, {})
    assert (env["OMP_NUM_THREADS"], env["MKL_NUM_THREADS"]) == ("2", "2")
    assert env["PYTORCH_CUDA_ALLOC_CONF"] == "a:1,b:2"
