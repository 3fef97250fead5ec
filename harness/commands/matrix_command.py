"""`harness matrix`: every standard workload with the device's default arms; the budget counts for each workload."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from harness.commands.bench_command import bench_experiment
from harness.commands.common import (
    experiment_options,
    options,
    plugin_options,
    registry,
    reports_option,
    results_option,
)
from harness.commands.measuring import measure_and_report, measuring_options, standard_workloads
from harness.config import parse_duration


@click.command("matrix")
@experiment_options
@plugin_options
@results_option
@reports_option
@options(*measuring_options)
def command(
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
    """Measure all standard workloads x the default arms of this device."""
    plugged = registry(plugins, workload_file)
    workloads = standard_workloads(plugged)
    experiment = dataclasses.replace(bench_experiment(workloads, given), name="matrix")
    if not given.get("budget") and experiment.analysis.budget:
        seconds = parse_duration(experiment.analysis.budget) * len(workloads)
        experiment = dataclasses.replace(
            experiment, analysis=dataclasses.replace(experiment.analysis, budget=f"{seconds:.0f}s")
        )
    return measure_and_report(
        experiment,
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
