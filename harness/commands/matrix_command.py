"""`harness matrix`: every standard workload with the device's default arms; the budget counts for each workload."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from harness.commands.bench_command import bench_experiment
from harness.commands.common import experiment_options, results_option
from harness.commands.measuring import Measuring, measure_and_report, measuring_options, standard_workloads
from harness.config import parse_duration
from harness.registry import load_registry


@click.command("matrix")
@experiment_options
@results_option
@measuring_options
def command(how: Measuring, **given: Any) -> int:
    """Measure all standard workloads x the default arms of this device."""
    plugged = load_registry(how.plugins)
    workloads = standard_workloads(plugged)
    experiment = bench_experiment(workloads, given, subject="matrix")
    if not given.get("budget") and experiment.analysis.budget:
        seconds = parse_duration(experiment.analysis.budget) * len(workloads)
        experiment = dataclasses.replace(
            experiment, analysis=dataclasses.replace(experiment.analysis, budget=f"{seconds:.0f}s")
        )
    return measure_and_report(experiment, plugged, how)
