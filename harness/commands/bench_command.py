"""`harness bench`: one workload with the device's default arms, or the user's own."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from harness.commands.common import changed, describe_machine, experiment_options, results_option
from harness.commands.measuring import Measuring, measure_and_report, measuring_options
from harness.config import experiment_files, load_experiment
from harness.plan import default_preset, resolve_device
from harness.registry import load_registry
from harness.spec import Experiment, UsageError

QUICK_BUDGETS = {"tiny": "210s"}
"""Presets that are for trying things out: over in minutes, unless a budget is given."""


def default_experiment(device: str) -> Experiment:
    """The device's defaults, from experiments/bench_<device>.toml."""
    return load_experiment(experiment_files()[f"bench_{device}"])


def bench_experiment(workloads: tuple[str, ...], given: dict[str, Any], subject: str = "") -> Experiment:
    """The experiment that a command line asks for; `subject` stands in its name for the workloads."""
    device = resolve_device(given.get("device") or "auto", describe_machine())
    quick = QUICK_BUDGETS.get(given.get("preset") or "")
    experiment = changed(
        default_experiment(device), {**given, "device": device, "budget": given.get("budget") or quick}
    )
    if given.get("treatments"):
        arms = ", ".join(experiment.arms)
        question = f"What does each of these change in {' and '.join(workloads)} on this machine: {arms}?"
        experiment = dataclasses.replace(experiment, question=question)
    return dataclasses.replace(
        experiment, workloads=workloads, name=told_apart(experiment, subject or "_".join(workloads))
    )


def told_apart(experiment: Experiment, subject: str) -> str:
    """A name that differs where preset, mode or protocol do: it is enough to name a report or to judge one again."""
    preset = experiment.preset or default_preset(experiment.device)
    parts = [part for part in (experiment.mode, experiment.measure.protocol) if part not in ("train", "steps")]
    return "_".join([experiment.name, subject, preset, *parts])


@click.command("bench")
@click.argument("workload", envvar="WORKLOAD", required=False)
@experiment_options
@results_option
@measuring_options
def command(workload: str | None, how: Measuring, **given: Any) -> int:
    """Measure WORKLOAD with and without the default arms of this device, or with those of TREATMENTS.

    WORKLOAD is a name, or path/to/train.py:NAME for a Workload in a file of your own.
    """
    plugged = load_registry(how.plugins, [workload] if workload else [])
    if workload is None:
        raise UsageError(f"no workload is named; give WORKLOAD=..., one of {', '.join(plugged.workloads)}")
    return measure_and_report(bench_experiment((plugged.workload(workload).name,), given), plugged, how)
