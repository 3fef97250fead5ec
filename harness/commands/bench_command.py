"""`harness bench`: one workload with the device's default arms, or the user's own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from harness.commands.common import (
    changed,
    describe_machine,
    experiment_options,
    options,
    plugin_options,
    registry,
    reports_option,
    results_option,
)
from harness.commands.measuring import measure_and_report, measuring_options
from harness.config import experiment_files, load_experiment
from harness.plan import resolve_device
from harness.spec import Experiment, UsageError

QUICK_BUDGETS = {"tiny": "210s"}
"""Presets that are for trying things out: over in minutes, unless a budget is given."""


def default_experiment(device: str) -> Experiment:
    """The device's defaults, from experiments/bench_<device>.toml."""
    return load_experiment(experiment_files()[f"bench_{device}"])


def bench_experiment(workloads: tuple[str, ...], given: dict[str, Any]) -> Experiment:
    """The experiment that a command line asks for."""
    device = resolve_device(given.get("device") or "auto", describe_machine())
    quick = QUICK_BUDGETS.get(given.get("preset") or "")
    experiment = changed(
        default_experiment(device), {**given, "device": device, "budget": given.get("budget") or quick}
    )
    if given.get("treatments"):
        arms = ", ".join(experiment.arms)
        question = f"What does each of these change in {' and '.join(workloads)} on this machine: {arms}?"
        experiment = dataclasses.replace(experiment, question=question)
    return dataclasses.replace(experiment, workloads=workloads, name=f"{experiment.name}_{'_'.join(workloads)}")


@click.command("bench")
@click.argument("workload", envvar="WORKLOAD", required=False)
@experiment_options
@plugin_options
@results_option
@reports_option
@options(*measuring_options)
def command(
    workload: str | None,
    plugins: tuple[Path, ...],
    workload_file: tuple[Path, ...],
    results: Path,
    reports: Path,
    trial_timeout: str,
    wait: str,
    on_bad_item: str,
    new_session: bool,
    keep_work: bool,
    strict: bool,
    **given: Any,
) -> int:
    """Measure WORKLOAD with and without the default arms of this device, or with those of TREATMENTS."""
    plugged = registry(plugins, workload_file)
    if workload is None:
        raise UsageError(f"no workload is named; give WORKLOAD=..., one of {', '.join(plugged.workloads)}")
    return measure_and_report(
        bench_experiment((plugged.workload(workload).name,), given),
        plugged,
        results=results,
        reports=reports,
        trial_timeout=trial_timeout,
        wait=wait,
        on_bad_item=on_bad_item,
        new_session=new_session,
        keep_work=keep_work,
        strict=strict,
    )
