"""What all verbs that measure share: their options, and plan, measure, print the verdicts, write the report."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import platformdirs

from harness import identity
from harness.commands.common import describe_machine, open_store, options, plugin_options, reports_option
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


# ------------------------------------------------------------------------------------------------ options


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """How to go about a run, as the command line says it; nothing of it is part of what is measured."""

    results: Path
    reports: Path = Path("reports")
    plugins: tuple[Path, ...] = ()
    trial_timeout: float = 1800.0
    wait: float = 0.0
    on_bad_item: str = "fatal"
    new_session: bool = False
    keep_work: bool = False
    allow_privileged: bool = False
    strict: bool = False


def measuring_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command all options of `Measuring` but the results folder, and hand it the values as one: `how`."""
    names = [field.name for field in dataclasses.fields(Measuring)]

    @functools.wraps(function)
    def packed(**given: Any) -> int:
        how = Measuring(**{name: given.pop(name) for name in names})
        return function(how=how, **given)

    decorated: Callable[..., int] = options(plugin_options, reports_option, *_OWN_OPTIONS)(packed)
    return decorated


_OWN_OPTIONS = [
    click.option("--trial-timeout", default="30m", show_default=True, help="time after which a single trial is killed",
                 callback=lambda context, option, value: parse_duration(value, above_zero=True)),
    click.option("--wait", default="0", show_default=True,
                 help="how long to wait for a device that another session measures, e.g. 2h",
                 callback=lambda context, option, value: parse_duration(value)),
    click.option("--on-bad-item", type=click.Choice(["fatal", "skip"]), default="fatal", show_default=True,
                 help="what to do with an unreadable file in your data"),
    click.option("--new-session", is_flag=True, help="measure again instead of going on after what is stored"),
    click.option("--keep-work", is_flag=True, help="keep each trial's folder (trial.json, output) in results/.work"),
    click.option("--allow-privileged", is_flag=True, help="run also what changes the machine, such as clocks"),
    click.option("--strict", is_flag=True, help="exit code 3 where a verdict is inconclusive"),
]  # fmt: skip


# ------------------------------------------------------------------------------------------------ the main job


def measure_and_report(experiment: Experiment, registry: Registry, how: Measuring) -> int:
    """The main job. Returns the exit code."""
    check_folder(how.reports, "REPORTS")
    result, store, spec_id = measure(experiment, registry, how)
    return conclude(result, store, spec_id, how)


def measure(experiment: Experiment, registry: Registry, how: Measuring, blocks: int = 0) -> tuple[Result, Store, str]:
    """Register the experiment and run one session of it, at most to so many blocks if `blocks` is given.

    Returns how it ended, the results folder, and the experiment's id in it. Every trial is stored as soon as it ends.
    """
    from harness.commands.progress import TerminalProgress
    from harness.device_lock import hold_devices
    from harness.launch import LocalExecutor
    from harness.session import Options
    from harness.store import compact
    from harness.telemetry import Sampler

    machine = dataclasses.replace(describe_machine(), allows_privileged=how.allow_privileged)
    plan = make_plan(experiment, registry, machine)
    refuse_if_nothing_runs(plan)
    cache = platformdirs.user_cache_path("torch-trials")
    check_folder(cache, "XDG_CACHE_HOME")
    store = open_store(how.results, writable=True)
    progress = TerminalProgress(sys.stderr)
    gpus = tuple(gpu.uuid for gpu in machine.gpus[: gpus_used(plan, registry, machine)])
    budget = plan.experiment.analysis.budget
    with hold_devices(gpus or ["cpu"], how.wait, tell=progress.note):
        session = make_session(
            plan,
            registry,
            machine,
            store,
            executor=LocalExecutor(
                watch=lambda trial_id, pid: Sampler(trial_id, pid, gpu_uuids=gpus), keep_work=how.keep_work
            ),
            progress=progress,
            options=Options(
                cache=cache,
                data_source=Path(plan.experiment.data) if plan.experiment.data else None,
                blocks=blocks,
                budget_s=parse_duration(budget) if budget else None,
                trial_timeout_s=how.trial_timeout,
                on_bad_item=how.on_bad_item,
                new_session=how.new_session,
            ),
        )
        try:
            result = session.run()
        except KeyboardInterrupt:
            progress.close()
            kept = f"{progress.finished} trials are kept in {how.results}"
            click.echo(f"stopped; {kept}. Run the same command to go on.", err=True)
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


def conclude(result: Result, store: Store, spec_id: str, how: Measuring) -> int:
    """Print the verdicts, as `harness judge` would, and the report's path, and choose the exit code."""
    from harness.commands.judge_command import judge_stored, print_judgement
    from harness.commands.report_command import write_report

    judgement = judge_stored(spec_id, store)
    print_judgement(judgement)
    if result.stopped_by == "budget":
        click.echo("\nThe budget is spent; run the same command with more to go on where this stopped.")
    click.echo(f"\nreport: {write_report(store, spec_id, how.reports, judgement)}")
    if result.failures:
        return Exit.TRIAL_FAILED
    if any(each.claims for each in judgement.calibrations) and judgement.experiment.is_aa:
        return Exit.CHECK_SAID_NO
    if how.strict and any(each.verdict == "inconclusive" for each in judgement.comparisons if each.primary):
        return Exit.INCONCLUSIVE
    return Exit.FINE


def standard_workloads(registry: Registry) -> tuple[str, ...]:
    """The workloads of `make matrix`: those that call themselves so."""
    return tuple(name for name, workload in registry.workloads.items() if workload.standard)
