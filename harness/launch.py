"""One trial becomes one child process (or one torchrun) becomes one record; tests fake it at `Executor`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import site
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec
import psutil

import harness.plugins
from harness.record import ChildRecord, Outcome, Sample
from harness.spec import ProcessChange, Trial

PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR",
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME", "CC", "CXX",
)  # fmt: skip
"""Variables a child takes over from the parent; everything else is set here or by the arm."""

STDERR_TAIL_BYTES = 4000
DIED = (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.OOM_HOST, Outcome.OOM_DEVICE)
"""Outcomes that a child's own last words help to explain."""
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, kw_only=True)
class Launched:
    """What came of one launch: the ranks' records, or the reason why there are none."""

    outcome: Outcome
    reason: str
    ranks: tuple[ChildRecord, ...] = ()
    samples: tuple[Sample, ...] = ()
    started_at: str = ""
    duration_ns: int = 0
    stderr_tail: str = ""


class Executor(Protocol):
    """Runs trials; the session knows nothing else of processes and devices."""

    def run(self, trial: Trial, change: ProcessChange, timeout_s: float) -> Launched: ...


class Watcher(Protocol):
    """Watches a process tree from outside while it is entered; `telemetry.Sampler` is one."""

    samples: list[Sample]

    def __enter__(self) -> Watcher: ...

    def __exit__(self, *error: object) -> None: ...


@dataclass
class Blind:
    """A watcher that sees nothing."""

    samples: list[Sample] = field(default_factory=list)

    def __enter__(self) -> Blind:
        return self

    def __exit__(self, *error: object) -> None:
        pass


@dataclass
class LocalExecutor:
    """Runs trials as processes on this machine."""

    watch: Callable[[str, int], Watcher] = lambda trial_id, pid: Blind()
    """(trial id, process id) -> what watches the child from outside"""
    keep_work: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(self, trial: Trial, change: ProcessChange, timeout_s: float) -> Launched:
        work = Path(trial.work_folder)
        work.mkdir(parents=True)
        try:
            return self._run(trial, change, timeout_s, work)
        finally:
            if not self.keep_work:
                shutil.rmtree(work, ignore_errors=True)

    def _run(self, trial: Trial, change: ProcessChange, timeout_s: float, work: Path) -> Launched:
        (work / "trial.json").write_bytes(msgspec.json.format(msgspec.json.encode(trial)))
        argv = command(trial, change, work / "trial.json")
        env = child_environment(trial, change, self.environment)
        become_subreaper()
        oom_kills = _oom_kills()
        started_at, started = datetime.now(UTC).isoformat(timespec="microseconds"), time.monotonic_ns()
        env["HARNESS_STARTED_NS"] = str(started)
        with (work / "stdout").open("wb") as out, (work / "stderr").open("wb") as err:
            try:
                process = subprocess.Popen(
                    argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=work, start_new_session=True
                )
            except OSError as error:
                return Launched(
                    outcome=Outcome.CRASHED, reason=f"cannot start {argv[0]}: {error}", started_at=started_at
                )
            with self.watch(trial.trial_id, process.pid) as watcher:
                try:
                    ended = wait(process, timeout_s)
                finally:
                    kill_tree(process)
        ranks = read_ranks(work, trial.rank_count)
        outcome, reason = explain(
            trial, process.returncode, ranks, timeout_s if not ended else None, _oom_kills() > oom_kills
        )
        return Launched(
            outcome=outcome,
            reason=reason,
            ranks=ranks,
            samples=tuple(watcher.samples),
            started_at=started_at,
            duration_ns=time.monotonic_ns() - started,
            stderr_tail=tail(work / "stderr") if outcome in DIED else "",
        )


# ------------------------------------------------------------------------------------------------ what is started


def command(trial: Trial, change: ProcessChange, trial_file: Path) -> list[str]:
    """The argument vector of a trial: prefix, Python, torchrun where there are several ranks, the child."""
    python = change.python or sys.executable
    child = ["-m", "harness.child", str(trial_file)]
    if trial.rank_count == 1:
        return [*change.prefix, python, *child]
    return [
        *change.prefix, python, "-m", "torch.distributed.run", "--nnodes", "1",
        "--nproc-per-node", str(trial.rank_count), "--master-addr", "127.0.0.1", "--master-port", "0",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", *child,
    ]  # fmt: skip


def child_environment(trial: Trial, change: ProcessChange, parent: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a child: an allow-list, fixed settings, the arm's own; nothing else gets in."""
    env = {name: parent[name] for name in PASSED_ON if name in parent}
    env |= {
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(_import_roots()),
        "HARNESS_PLUGINS": os.pathsep.join(harness.plugins.__path__[1:]),
        "OMP_NUM_THREADS": str(trial.threads),
        "MKL_NUM_THREADS": str(trial.threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(Path(trial.compile_cache) / "inductor"),
        "TRITON_CACHE_DIR": str(Path(trial.compile_cache) / "triton"),
    }
    if trial.rank_count > 1:
        env["GLOO_SOCKET_IFNAME"] = "lo"
    env |= change.env
    if "OMP_NUM_THREADS" in change.env:
        env["MKL_NUM_THREADS"] = change.env["OMP_NUM_THREADS"]
    if change.allocator:
        settings = ",".join(f"{key}:{value}" for key, value in sorted(change.allocator.items()))
        env["PYTORCH_ALLOC_CONF"] = env["PYTORCH_CUDA_ALLOC_CONF"] = settings
    return env


def _import_roots() -> list[str]:
    """Folders from which the parent imports the harness and its validation library, where they are not installed."""
    installed = {*site.getsitepackages(), site.getusersitepackages()}
    roots = []
    for module in (sys.modules["harness"], msgspec, psutil):
        root = str(Path(module.__file__ or "").parents[1])
        if root not in installed and root not in roots:
            roots.append(root)
    return roots


# ------------------------------------------------------------------------------------------------ waiting and killing


def wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Block, without polling, until the process ends; False when the time is over."""
    descriptor = os.pidfd_open(process.pid)
    try:
        ready, _, _ = select.select([descriptor], [], [], timeout_s)
    finally:
        os.close(descriptor)
    if ready:
        process.wait()
    return bool(ready)


def become_subreaper() -> None:
    """Orphaned descendants (torchrun's ranks, daemons) are re-parented to this process, where they can be found."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_tree(process: subprocess.Popen[bytes], grace_s: float = 3.0) -> None:
    """End the child and everything it started, by SIGTERM and then SIGKILL, and reap it all."""
    me = psutil.Process()
    left = [p for p in me.children(recursive=True) if _belongs(p, process.pid)]
    if process.poll() is None:
        _signal_all(left, signal.SIGTERM)
        psutil.wait_procs(left, timeout=grace_s)
    while left := [p for p in me.children(recursive=True) if _belongs(p, process.pid)]:
        _signal_all(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=grace_s)
    process.wait()


def _belongs(candidate: psutil.Process, session: int) -> bool:
    """Whether a descendant of ours stems from the child: by its session, or because it was orphaned to us."""
    try:
        return candidate.status() != psutil.STATUS_ZOMBIE and (
            os.getsid(candidate.pid) == session or candidate.pid == session or _ancestor(candidate, session)
        )
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False


def _ancestor(candidate: psutil.Process, pid: int) -> bool:
    # a daemon that made its own session is still marked by the environment that only our children have
    try:
        return "HARNESS_STARTED_NS" in candidate.environ() or pid in (p.pid for p in candidate.parents())
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return False


def _signal_all(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


# ------------------------------------------------------------------------------------------------ explaining the end


def read_ranks(work: Path, rank_count: int) -> tuple[ChildRecord, ...]:
    """The records that the ranks left, in rank order; a missing or damaged one is left out."""
    records = []
    for rank in range(rank_count):
        path = work / f"record.rank{rank}.json"
        if path.is_file():
            with contextlib.suppress(msgspec.DecodeError):
                records.append(msgspec.json.decode(path.read_bytes(), type=ChildRecord))
    return tuple(records)


def explain(
    trial: Trial, returncode: int, ranks: Sequence[ChildRecord], timeout_s: float | None, oom_killed: bool
) -> tuple[Outcome, str]:
    """The outcome of a launch and its reason in a sentence."""
    for record in ranks:
        if record.outcome is not Outcome.OK:
            return record.outcome, record.reason
    if timeout_s is not None:
        return Outcome.TIMED_OUT, f"it had not ended after {timeout_s:.0f} s and was killed"
    if returncode < 0:
        name = signal.Signals(-returncode).name
        if oom_killed and name == "SIGKILL":
            return Outcome.OOM_HOST, "the kernel killed it because host memory ran out"
        return Outcome.CRASHED, f"it was killed by {name}"
    if returncode != 0:
        return Outcome.CRASHED, f"it ended with exit code {returncode}"
    if len(ranks) < trial.rank_count:
        return Outcome.CRASHED, f"it left {len(ranks)} of {trial.rank_count} records"
    return Outcome.OK, ""


def tail(path: Path) -> str:
    """The end of a log file, as text."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - STDERR_TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
    return ""


def _oom_kills() -> int:
    """Processes of this machine (or control group) that the kernel killed for memory, so far."""
    for path, key in (("/sys/fs/cgroup/memory.events", "oom_kill"), ("/proc/vmstat", "oom_kill")):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            for line in file:
                name, value = line.split()
                if name == key:
                    return int(value)
    return 0
