"""`harness gpu-check`: does all that needs this device work on it? Every proof, numerics, then timing."""

from __future__ import annotations

import dataclasses
import multiprocessing
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import platformdirs

from harness import identity
from harness.checking import Checked, CheckPlan, Passed, plan_checks, results_of
from harness.commands.common import describe_machine, open_store, plugin_options, print_table, to_json
from harness.commands.exit_codes import Exit
from harness.commands.measuring import Measuring, make_session, measure
from harness.config import experiment_files, load_experiment, load_ledger, parse_duration
from harness.judge.types import Judgement, Word
from harness.plan import make_plan, resolve_device
from harness.record import FAILURES, TrialRecord
from harness.registry import load_registry
from harness.spec import Experiment, Kind, UsageError

if TYPE_CHECKING:
    from harness.registry import Registry
    from harness.store import Store

SHARE_OF_PROOFS = 0.6
"""Of the time; what they leave is for timing."""
SLACK_S = 12.0
"""At the end, for judging, reports and packing."""
LOOK_BLOCKS = 4
MOST_PROCESSES = 12


@click.command("gpu-check")
@click.option("--out", envvar="OUT", default="gpu-check", type=click.Path(path_type=Path), help="folder to write [OUT]")
@click.option(
    "--device", envvar="DEVICE", default="cuda", show_default=True, help="cuda, or cpu for a rehearsal [DEVICE]"
)
@click.option("--budget", envvar="BUDGET", default="270s", show_default=True, help="time for all of it [BUDGET]")
@click.option("--processes", type=int, default=0, help="trials at a time while proofs are tried; 0: by the cores")
@click.option("--treatments", envvar="TREATMENTS", default="", help="only these, separated by spaces [TREATMENTS]")
@click.option("--no-timing", is_flag=True, help="proofs and numerics only")
@plugin_options
def command(
    out: Path,
    device: str,
    budget: str,
    processes: int,
    treatments: str,
    no_timing: bool,
    plugins: tuple[Path, ...],
) -> int:
    """Try every treatment's proof and numerics on this device, time its stacks, and write what came of it to OUT."""
    plugged = load_registry(plugins)
    machine = describe_machine()
    device = resolve_device(device, machine)
    processes = processes or min(MOST_PROCESSES, machine.cores)
    plan = plan_checks(plugged, machine, device, names=treatments.split(), first=load_ledger().any, processes=processes)
    with folder_of_results(out) as results:
        run = DeviceRun(plugged, device, results, time.monotonic() + parse_duration(budget) - SLACK_S)
        lines = run.proofs(plan, processes, plugins, SHARE_OF_PROOFS if not no_timing else 1.0)
        wanted = [] if no_timing else stacks(device)
        for number, experiment in enumerate(wanted):
            lines += run.timing(experiment, run.left / (len(wanted) - number))
        return conclude(lines, run, out, "gpu-check")


def stacks(device: str) -> list[Experiment]:
    """The experiments that are timed on a device: every experiments/check_<device>_*.toml."""
    return [load_experiment(path) for name, path in experiment_files().items() if name.startswith(f"check_{device}_")]


# ------------------------------------------------------------------------------------------------ the phases


@dataclass
class DeviceRun:
    """A run over a device under one deadline, and the experiments that it left in its results."""

    registry: Registry
    device: str
    results: Path
    ends: float
    timed: dict[str, str] = field(default_factory=dict)
    """Ids of the timed experiments by name."""

    @property
    def left(self) -> float:
        return self.ends - time.monotonic()

    def proofs(self, plan: CheckPlan, processes: int, plugins: Any, share: float) -> list[Checked]:
        """Try every treatment, several experiments at a time, each in a process of its own that starts its trials."""
        from harness.device_lock import hold_devices

        machine = describe_machine()
        store = open_store(self.results, writable=True)
        seconds, now = self.left * share, time.monotonic()
        arms = sum(len(each.arms) for each in plan.experiments)
        resolved = {each.name: make_plan(each, self.registry, machine).experiment for each in plan.experiments}
        ids = {name: identity.spec_id(each) for name, each in resolved.items()}
        known = [gpu.uuid for gpu in machine.gpus] if self.device == "cuda" else ["cpu"]
        with hold_devices(known, 0):
            spawn = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(min(processes, len(plan.experiments)) or 1, mp_context=spawn) as pool:
                jobs = [
                    # Each gets its part, so that no workload is left without its turn.
                    pool.submit(
                        _try,
                        each,
                        self.results,
                        plugins,
                        now + seconds,
                        seconds * processes * len(each.arms) / arms,
                        processes,
                    )
                    for each in plan.experiments
                ]
                for job in as_completed(jobs):
                    click.echo(job.result(), err=True)
        return results_of(plan, store.trials(), ids)

    def timing(self, experiment: Experiment, seconds: float) -> list[Checked]:
        """Time one experiment for at most so long."""
        if seconds < 5:
            return [Checked(what=arm, where=experiment.name, result=Passed.NOT_RUN) for arm in experiment.arms]
        analysis = dataclasses.replace(experiment.analysis, budget=f"{seconds:.0f}s", max_foreign_cpu_share=64.0)
        wanted = dataclasses.replace(experiment, analysis=analysis)
        try:
            how = Measuring(results=self.results, trial_timeout=max(20.0, seconds))
            result, store, spec_id = measure(wanted, self.registry, how, LOOK_BLOCKS)
        except UsageError as error:
            where = " ".join(experiment.workloads)
            return [Checked(what=arm, where=where, result=Passed.SKIPPED, why=str(error)) for arm in experiment.arms]
        self.timed[experiment.name] = spec_id
        lines = timed_lines(result.judgement, store.trials(spec_id))
        return lines + (watched_lines(store, spec_id) if self.device == "cuda" else [])


def _try(experiment: Experiment, results: Path, plugins: Any, ends: float, seconds: float, processes: int) -> str:
    """In a process of its own: try the arms of one experiment until the time is over. Returns a line of what it did."""
    from harness.launch import LocalExecutor
    from harness.session import Options

    plugged, machine = load_registry(plugins), describe_machine()
    left = min(seconds, ends - time.monotonic())
    if left <= 0:
        return f"{experiment.name}: not run: budget"
    plan = make_plan(experiment, plugged, machine)
    session = make_session(
        dataclasses.replace(plan, threads=max(1, plan.threads // processes)),  # several run at a time
        plugged,
        machine,
        open_store(results, writable=True),
        executor=LocalExecutor(),
        progress=Quiet(),
        options=Options(
            cache=platformdirs.user_cache_path("torch-trials"),
            budget_s=left,
            trial_timeout_s=max(20.0, left + SLACK_S / 2),
        ),
    )
    session.check()
    ran = [record for record in session.log.records if record.duration_ns]
    return f"{experiment.name}: {len(ran)} trials of {len(experiment.arms)} arms and their baseline"


class Quiet:
    """A session's progress where several sessions run at a time: only failures are told."""

    def note(self, text: str) -> None:
        """Nothing: what is skipped stands in the table."""

    def start(self, label: str, arm: str, done: int, planned: int, seconds_left: float | None) -> None:
        """Nothing."""

    def finish(self, record: TrialRecord) -> None:
        if record.outcome in FAILURES:
            print(f"{record.workload}: {record.arm}: {record.kind}: {record.outcome}: {record.reason}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------ what came of it


def timed_lines(judgement: Judgement, trials: Sequence[TrialRecord]) -> list[Checked]:
    """One line an arm: passed where its blocks are there, whatever the speedup."""
    lines = []
    for each in (each for each in judgement.comparisons if each.primary):
        failed = [t for t in trials if t.arm in (each.arm, each.baseline) and t.outcome in FAILURES]
        if each.blocks >= LOOK_BLOCKS:
            result, why = Passed.PASSED, f"{each.blocks} blocks, speedup {each.speedup or 0:.3g}: {each.verdict}"
        elif failed:
            result, why = Passed.FAILED, f"{failed[-1].outcome}: {failed[-1].reason}"
        elif each.verdict is Word.NOT_RUN:
            result, why = Passed.SKIPPED, each.reason
        else:
            result, why = Passed.NOT_RUN, f"{each.blocks} of {LOOK_BLOCKS} blocks: {each.reason}"
        lines.append(Checked(what=each.arm or "(plain)", where=f"{each.workload} timed", result=result, why=why))
    return lines


def watched_lines(store: Store, spec_id: str) -> list[Checked]:
    """Whether utilization, memory and clocks of the GPU were read while its trials ran."""
    import numpy

    trials = [trial for trial in store.trials(spec_id) if trial.kind == Kind.TIMING and trial.steps_rows]
    if not trials:
        return []
    samples = store.samples([trial.trial_id for trial in trials]).values()
    clocks = sorted(
        {name for table in samples for name in table if "clock" in name and numpy.isfinite(table[name]).any()}
    )
    missing = [trial for trial in trials if trial.gpu_utilization is None or trial.peak_device_bytes is None]
    result = Passed.FAILED if missing or not clocks else Passed.PASSED
    why = f"{', '.join(clocks) or 'no clocks'}; utilization or memory missing in {len(missing)} of {len(trials)} trials"
    return [Checked(what="NVML", where=f"{trials[0].workload} timed", result=result, why=why)]


def conclude(lines: Sequence[Checked], run: DeviceRun, out: Path, name: str) -> int:
    """Print the table, write it with the results and the reports to the folder, and choose the exit code."""
    from harness.commands.report_command import write_report
    from harness.store import compact

    store = open_store(run.results)
    reports = [write_report(store, spec_id, out) for spec_id in run.timed.values()]
    compact(store, at_least=2)
    packed = out / "results.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        for path in sorted(run.results.rglob("*.*")):
            inside = path.relative_to(run.results)
            if path.is_file() and not any(part.startswith(".") for part in inside.parts):
                archive.add(path, arcname=str(inside))
    table = out / f"{name}.json"
    table.write_text(to_json(list(lines)) + "\n")
    print_table(
        f"{name} on {run.device}",
        ("what", "where", "result", "why"),
        [(line.what, line.where, str(line.result), line.why) for line in lines],
    )
    counts = {word: sum(line.result is word for line in lines) for word in Passed}
    click.echo("\n" + ", ".join(f"{count} {word}" for word, count in counts.items()))
    for path in (table, packed, *reports):
        click.echo(f"wrote {path}")
    return Exit.CHECK_SAID_NO if counts[Passed.FAILED] else Exit.FINE


@contextmanager
def folder_of_results(out: Path) -> Iterator[Path]:
    """A results folder inside OUT that is gone at the end; what is kept of it is packed into one file."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        results = Path(tempfile.mkdtemp(prefix=".results-", dir=out))
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}; give another folder with OUT=...") from error
    try:
        yield results
    finally:
        shutil.rmtree(results, ignore_errors=True)
