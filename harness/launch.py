"""One trial becomes one child process (or one torchrun) becomes one record; tests fake it at `Executor`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import site
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import msgspec
import psutil

import harness.plugins
from harness.record import ChildRecord, Outcome, Sample
from harness.spec import Phase, ProcessChange, Trial, UsageError
from harness.work_folder import work_folder

PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME", "CC", "CXX",
)  # fmt: skip
"""Variables a child takes over from the parent, all about where things lie; the rest is set here or by the arm."""

PHASE_LIMITS_S = {
    Phase.IMPORT: 300.0,
    Phase.BUILD: 900.0,
    Phase.FIRST_STEP: 1200.0,
    Phase.WARM_UP: 900.0,
    Phase.TIMED: 900.0,
    Phase.PROOF: 900.0,
    Phase.EXIT: 60.0,
}
"""After how many seconds in one phase a trial counts as hung."""

LOOK_S = 1.0
"""How often the parent looks which phase a trial is in; it sleeps in between."""

STDERR_TAIL_BYTES = 4000
DIED = (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.OOM_HOST, Outcome.OOM_DEVICE)
"""Outcomes that a child's own last words help to explain."""
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_CHILD_SUBREAPER = 36
KILL_LIMIT_S = 30.0
"""How long to wait for what was sent SIGKILL."""

_ONE_AT_A_TIME = threading.Lock()


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
    """Runs trials as processes on this machine, one at a time in a process of the harness.

    Whatever starts below that process meanwhile is taken for the trial's, and ends with it.
    """

    watch: Callable[[str, int], Watcher] = lambda trial_id, pid: Blind()
    """(trial id, process id) -> what watches the child from outside"""
    keep_work: bool = False
    phase_limits_s: Mapping[Phase, float] = field(default_factory=lambda: PHASE_LIMITS_S)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(self, trial: Trial, change: ProcessChange, timeout_s: float) -> Launched:
        with _ONE_AT_A_TIME, work_folder(Path(trial.work_folder), self.keep_work) as work:
            return self._run(trial, change, timeout_s, work)

    def _run(self, trial: Trial, change: ProcessChange, timeout_s: float, work: Path) -> Launched:
        (work / "trial.json").write_bytes(as_json(trial))
        argv = command(trial, change, work / "trial.json")
        env = child_environment(trial, change, self.environment)
        become_subreaper()
        earlier = psutil.Process().children()
        oom_kills = _oom_kills()
        started_at, started = datetime.now(UTC).isoformat(timespec="microseconds"), time.monotonic_ns()
        env |= {"HARNESS_STARTED_NS": str(started), "HARNESS_LAUNCHER_PID": str(os.getpid())}
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
                    ending = wait(process, Place(work, trial.rank_count), timeout_s, self.phase_limits_s)
                finally:
                    with undisturbed():
                        kill_tree(process, earlier)
        ranks = read_ranks(work, trial.rank_count)
        errors = tail(work / "stderr")
        out_of_memory = _oom_kills() > oom_kills or "std::bad_alloc" in errors
        outcome, reason = explain(trial, process.returncode, ranks, ending, out_of_memory)
        return Launched(
            outcome=outcome,
            reason=reason,
            ranks=ranks,
            samples=tuple(watcher.samples),
            started_at=started_at,
            duration_ns=time.monotonic_ns() - started,
            stderr_tail=errors if outcome in DIED else "",
        )


# ------------------------------------------------------------------------------------------------ what is started


def as_json(trial: Trial) -> bytes:
    """What the child reads. Raises UsageError for a path that JSON cannot hold."""
    try:
        return msgspec.json.format(msgspec.json.encode(trial))
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the path {error.object} has bytes that are no UTF-8, or that this locale (LC_ALL) does not know; "
            "give results, data and code another folder"
        ) from error


def command(trial: Trial, change: ProcessChange, trial_file: Path) -> list[str]:
    """The argument vector of a trial: prefix, Python, torchrun where there are several ranks, the child."""
    python = change.python or sys.executable
    child = ["-m", "harness.child", str(trial_file)]
    if trial.rank_count == 1:
        return [*change.prefix, python, *child]
    return [
        *change.prefix, python, "-m", "harness.child.torchrun", "--nnodes", "1",
        "--nproc-per-node", str(trial.rank_count), "--master-addr", "127.0.0.1", "--master-port", "0",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", *child,
    ]  # fmt: skip


def child_environment(trial: Trial, change: ProcessChange, parent: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a child: an allow-list, fixed settings, the arm's own; nothing else gets in."""
    env = {name: parent[name] for name in PASSED_ON if name in parent}
    env |= {
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(_import_roots()),
        "HARNESS_PLUGINS": os.pathsep.join(quote(folder) for folder in list(harness.plugins.__path__)[1:]),
        "OMP_NUM_THREADS": str(trial.threads),
        "MKL_NUM_THREADS": str(trial.threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(Path(trial.compile_cache) / "inductor"),
        "TRITON_CACHE_DIR": str(Path(trial.compile_cache) / "triton"),
    }
    if trial.cell.device == "cpu":
        env["CUDA_VISIBLE_DEVICES"] = ""  # what runs on the CPU can neither use nor disturb a GPU
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


@dataclass(frozen=True)
class Place:
    """Where the ranks of a trial say which phase they are in."""

    folder: Path
    rank_count: int

    def phase(self) -> Phase:
        """The phase of the rank that is furthest behind."""
        return min((self._phase_of(rank) for rank in range(self.rank_count)), key=list(Phase).index)

    def _phase_of(self, rank: int) -> Phase:
        try:
            return Phase((self.folder / f"phase.rank{rank}").read_text())
        except (OSError, ValueError):  # it has not come so far, or is just writing
            return Phase.IMPORT


@dataclass(frozen=True)
class Ending:
    """In which phase a process ended, and the limit in seconds that it overran, if it did."""

    phase: Phase
    limit_s: float | None = None
    of_phase: bool = False
    """Whether the limit was that of the phase, and not that of the whole trial."""


def wait(process: subprocess.Popen[bytes], place: Place, timeout_s: float, limits_s: Mapping[Phase, float]) -> Ending:
    """Sleep until the process ends or overruns the limit of the trial, or that of the phase it is in."""
    descriptor = os.pidfd_open(process.pid)
    started = entered = time.monotonic()
    phase = Phase.IMPORT
    try:
        while True:
            now = time.monotonic()
            left_s, left_in_phase_s = started + timeout_s - now, entered + limits_s[phase] - now
            if left_s <= 0:
                return Ending(phase, timeout_s)
            if left_in_phase_s <= 0:
                return Ending(phase, limits_s[phase], of_phase=True)
            ready, _, _ = select.select([descriptor], [], [], min(LOOK_S, left_s, left_in_phase_s))
            found = place.phase()
            if ready:
                process.wait()
                return Ending(found)
            if found is not phase:
                phase, entered = found, time.monotonic()
    finally:
        os.close(descriptor)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put off the signals that ask to stop: whoever presses Ctrl-C twice leaves no child behind either."""
    if threading.current_thread() is not threading.main_thread():  # which alone is asked
        yield
        return
    late: list[int] = []
    before = {each: signal.signal(each, lambda number, _: late.append(number)) for each in STOPS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in late[:1]:
            signal.raise_signal(number)


def become_subreaper() -> None:
    """Orphaned descendants (torchrun's ranks, daemons) are re-parented to this process, where they can be found."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_tree(process: subprocess.Popen[bytes], earlier: Sequence[psutil.Process] = (), grace_s: float = 3.0) -> None:
    """End the child and everything it started, by SIGTERM and then SIGKILL, and reap it all.

    `earlier` are the processes below this one from before the launch. All others stem from the child: also a daemon
    that left its session, its parent and its environment, since orphans come to this process.
    """
    if process.poll() is None:
        _signal_all(_stemming(earlier), signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    deadline = time.monotonic() + KILL_LIMIT_S
    while left := _stemming(earlier):
        if time.monotonic() > deadline:
            stuck = ", ".join(f"{each.pid} ({each.name()})" for each in left)
            raise UsageError(
                f"process {stuck} cannot be killed: it hangs in the kernel, in a driver or a file system; "
                "nothing can be measured beside it, so end it (or reboot) and run the same command again"
            )
        _signal_all(left, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
        psutil.wait_procs([each for each in left if each.pid != process.pid], timeout=grace_s)
    process.wait()


def _stemming(earlier: Sequence[psutil.Process]) -> list[psutil.Process]:
    """The processes below this one that were not there, nor below one that was there, before."""
    new = [child for child in psutil.Process().children() if child not in earlier]
    found = list(new)
    for child in new:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += child.children(recursive=True)
    return found


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
    trial: Trial, returncode: int, ranks: Sequence[ChildRecord], ending: Ending, out_of_memory: bool
) -> tuple[Outcome, str]:
    """The outcome of a launch and its reason in a sentence."""
    failed = [record for record in ranks if record.outcome is not Outcome.OK]
    if failed:
        first = min(failed, key=lambda record: record.written_monotonic_ns)
        if first.outcome is Outcome.CRASHED and out_of_memory:
            return Outcome.OOM_HOST, f"host memory ran out, and then: {first.reason}"
        return first.outcome, first.reason
    if ending.limit_s is not None:
        whose = "this phase" if ending.of_phase else "a whole trial"
        return Outcome.TIMED_OUT, f"timed out in {ending.phase} after {ending.limit_s:g} s, the limit of {whose}"
    if returncode != 0 and out_of_memory:
        return Outcome.OOM_HOST, f"it was killed in {ending.phase} because host memory ran out"
    if returncode < 0:
        return Outcome.CRASHED, f"it was killed by {signal.Signals(-returncode).name} in {ending.phase}"
    if returncode != 0:
        return Outcome.CRASHED, f"it ended with exit code {returncode} in {ending.phase}"
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
