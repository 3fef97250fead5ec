"""`harness aa WORKLOAD...`: identical runs compared with each other, to learn what this machine can tell apart."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from harness.commands.bench_command import told_apart
from harness.commands.common import changed, describe_machine, experiment_options, results_option
from harness.commands.measuring import Measuring, measure_and_report, measuring_options
from harness.plan import resolve_device
from harness.registry import Registry, load_registry
from harness.spec import Analysis, Experiment, UsageError

BLOCKS = 8
"""Even, so that every order has its reverse."""
MOST_REPLICATES = 16


@click.command("aa")
@click.argument("workloads", nargs=-1, envvar="WORKLOAD")
@click.option(
    "--comparisons",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="pairs of identical runs a workload, at least: 7 runs a block give 21",
)
@click.option(
    "--blocks", type=click.IntRange(4, 100), default=BLOCKS, show_default=True, help="blocks, all of them run"
)
@experiment_options
@results_option
@measuring_options
def command(workloads: tuple[str, ...], comparisons: int, blocks: int, how: Measuring, **given: Any) -> int:
    """Compare identical runs of WORKLOADS, in one experiment that is declared before any data."""
    plugged = load_registry(how.plugins, workloads)
    return measure_and_report(aa_experiment(plugged, workloads, comparisons, blocks, given), plugged, how)


def aa_experiment(
    registry: Registry, workloads: tuple[str, ...], comparisons: int, blocks: int, given: dict[str, Any]
) -> Experiment:
    """The experiment: as many identical runs a block as make so many pairs."""
    if not workloads:
        raise UsageError(f"no workload is named; give one or more of {', '.join(registry.workloads)}")
    if given.pop("treatments", None):
        raise UsageError("an A/A compares identical runs; it takes no TREATMENTS (a BASELINE it does)")
    names = tuple(dict.fromkeys(registry.workload(name).name for name in workloads))
    experiment = Experiment(
        name="aa",
        question=f"What can be told apart on this machine, if runs of {' and '.join(names)} do not differ at all?",
        workloads=names,
        design="aa",
        replicates=replicates_for(comparisons),
        numerics=False,
        analysis=Analysis(max_blocks=blocks),
    )
    device = resolve_device(given.get("device") or "auto", describe_machine())
    wanted = changed(experiment, {**given, "device": device})
    return dataclasses.replace(wanted, name=told_apart(wanted, "_".join(names)))


def replicates_for(comparisons: int) -> int:
    """The fewest runs a block that make so many pairs."""
    count = next((runs for runs in range(2, MOST_REPLICATES + 1) if runs * (runs - 1) // 2 >= comparisons), None)
    if count is None:
        most = MOST_REPLICATES * (MOST_REPLICATES - 1) // 2
        raise UsageError(
            f"--comparisons {comparisons} is too many for one block; at most {most}, or name more workloads"
        )
    return count
