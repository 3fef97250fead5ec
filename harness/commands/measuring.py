"""What bench, matrix and run share: plan, measure, print the verdicts, write the report."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import platformdirs

from harness import identity
from harness.commands.common import describe_machine, open_store
from harness.commands.exit_codes import Exit
from harness.config import experiment_toml, parse_duration
from harness.plan import Plan, make_plan, requires_of
from harness.spec import Experiment, UsageError
from harness.worktree import describe_tree

if TYPE_CHECKING:
    from harness.launch import Executor
    from harness.machine import Machine
    from harness.record import Fact
    from harness.registry import Registry
    from harness.session import Result, Session
    from harness.store import Store

measuring_options = [
    click.option("--trial-timeout", default="30m", show_default=True, help="time after which a single trial is killed"),
    click.option("--wait", default="0", show_default=True,
                 help="how long to wait for a device that another session measures, e.g. 2h"),
    click.option("--on-bad-item", type=click.Choice(["fatal", "skip"]), default="fatal", show_default=True,
                 help="what to do with an unreadable file in your data"),
    click.option("--new-session", is_flag=True, help="measure again instead of going on after what is stored"),
    click.option("--keep-work", is_flag=True, help="keep each trial's folder (trial.json, output) in results/.work"),
    click.option("--strict", is_flag=True, help="exit code 3 where a verdict is inconclusive"),
]  # fmt: skip


def measure_and_report(experiment: Experiment, registry: Registry, *, reports: Path, strict: bool, **how: Any) -> int:
    """The main job. Returns the exit code."""
    check_folder(reports, "REPORTS")
    result, store, spec_id = measure(experiment, registry, **how)
    return conclude(result, store, spec_id, reports, strict)


def measure(
    experiment: Experiment,
    registry: Registry,
    *,
    results: Path,
    trial_timeout: str,
    wait: str,
    on_bad_item: str,
    new_session: bool,
    keep_work: bool,
    blocks: int = 0,
) -> tuple[Result, Store, str]:
    """Run one session of the experiment. Returns how it ended, the results folder, and the experiment's id in it."""
    from harness.commands.progress import TerminalProgress
    from harness.device_lock import hold_devices
    from harness.launch import LocalExecutor
    from harness.session import Options
    from harness.store import compact
    from harness.telemetry import Sampler

    timeout_s, wait_s = parse_duration(trial_timeout), parse_duration(wait)
    if not timeout_s:
        raise UsageError(f"--trial-timeout {trial_timeout} leaves a trial no time; give for instance 30m")
    machine = describe_machine()
    plan = make_plan(experiment, registry, machine)
    refuse_if_nothing_runs(plan)
    cache = platformdirs.user_cache_path("torch-trials")
    check_folder(cache, "XDG_CACHE_HOME")
    store = open_store(results, writable=True)
    progress = TerminalProgress(sys.stderr)
    gpus = tuple(gpu.uuid for gpu in machine.gpus[: gpus_used(plan, registry, machine)])
    with hold_devices(gpus or ["cpu"], wait_s, tell=progress.note):
        session = make_session(
            plan,
            registry,
            machine,
            store,
            executor=LocalExecutor(
                watch=lambda trial_id, pid: Sampler(trial_id, pid, gpu_uuids=gpus), keep_work=keep_work
            ),
            progress=progress,
            options=Options(
                cache=cache,
                data_source=Path(plan.experiment.data) if plan.experiment.data else None,
                blocks=blocks,
                budget_s=parse_duration(plan.experiment.analysis.budget) if plan.experiment.analysis.budget else None,
                trial_timeout_s=timeout_s,
                on_bad_item=on_bad_item,
                new_session=new_session,
            ),
        )
        try:
            result = session.run()
        except KeyboardInterrupt:
            progress.close()
            click.echo(
                f"stopped; {progress.finished} trials are kept in {results}. Run the same command to go on.", err=True
            )
            raise
        compact(store)
    progress.close()
    return result, store, session.spec_id


def make_session(
    plan: Plan, registry: Registry, machine: Machine, store: Store, *, executor: Executor, **how: Any
) -> Session:
    """The session of a plan, with its question and the facts of its surroundings written down."""
    from harness.session import Session, session_ids

    spec_id = identity.spec_id(plan.experiment)
    store.write_spec(spec_id, experiment_toml(plan.experiment))
    ids = session_ids(plan, machine, store.write_environment(all_facts(plan, registry, machine)))
    return Session(
        plan=plan, registry=registry, machine=machine, store=store, executor=executor, spec_id=spec_id, ids=ids, **how
    )


def check_folder(folder: Path, variable: str) -> None:
    """Make a folder and try it, before anything is measured that could not be written down."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        what = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"{folder} cannot be written ({what}); give another folder with {variable}=...") from error


def gpus_used(plan: Plan, registry: Registry, machine: Machine) -> int:
    """How many of the machine's GPUs, the first ones, the arm takes that takes the most."""
    from harness.trials import process_change

    if plan.device == "cpu":
        return 0
    needs = [1]
    for arm in plan.arms.values():
        needs.append(process_change(arm, registry, machine).ranks)
        needs += [requires_of(registry.treatments[use.name], use).gpus for use in arm.uses]
    return max(needs)


def all_facts(plan: Plan, registry: Registry, machine: Machine) -> list[Fact]:
    """What is known of this run's surroundings: the machine, the working tree, and the code the children import."""
    sources = [registry.workload_source(name) for name in plan.experiment.workloads]
    sources += [registry.treatment_source(use.name) for arm in plan.arms.values() for use in arm.uses]
    tree = describe_tree(Path.cwd())
    return [*machine.facts, *tree.facts(), *identity.code_facts(identity.code_parts(sources))]


def refuse_if_nothing_runs(plan: Plan) -> None:
    """A run in which every arm would be skipped is a mistake: say why for each."""
    if not any(plan.runs.values()):
        reasons = "; ".join(f"{skip.place.label}: {skip.arm or 'baseline'}: {skip.reason}" for skip in plan.skips)
        raise UsageError(f"nothing is left to run: {reasons}")


def conclude(result: Result, store: Any, spec_id: str, reports: Path, strict: bool) -> int:
    """Print the verdicts and the report's path, and choose the exit code."""
    from harness.commands.judge_command import print_judgement
    from harness.commands.report_command import write_report

    print_judgement(result.judgement)
    if result.stopped_by == "budget":
        click.echo("\nThe budget is spent; run the same command with more to go on where this stopped.")
    path = write_report(store, spec_id, reports)
    click.echo(f"\nreport: {path}")
    if result.failures:
        return Exit.TRIAL_FAILED
    if strict and any(c.verdict == "inconclusive" for c in result.judgement.comparisons if c.primary):
        return Exit.INCONCLUSIVE
    return Exit.FINE


def standard_workloads(registry: Registry) -> tuple[str, ...]:
    """The workloads of `make matrix`: those that call themselves so."""
    return tuple(name for name, workload in registry.workloads.items() if workload.standard)
