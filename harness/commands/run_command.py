"""`harness run EXPERIMENT`: measure an experiment file, or go on with a stored one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.commands.common import changed, experiment_options, find_experiment, open_store, registry
from harness.commands.measuring import Measuring, measure_and_report, measuring_options


@click.command("run")
@click.argument("experiment")
@click.argument("results", envvar="RESULTS", default="results", type=click.Path(path_type=Path))
@click.option("--workload", "-w", multiple=True, help="workload(s), in place of those of the experiment")
@experiment_options
@measuring_options
def command(experiment: str, workload: tuple[str, ...], how: Measuring, **given: Any) -> int:
    """Measure EXPERIMENT (a .toml file, a name in experiments/, a stored spec id, or latest) into RESULTS."""
    store = open_store(how.results) if how.results.is_dir() else None
    wanted = changed(find_experiment(experiment, store), {"workloads": workload, **given})
    return measure_and_report(wanted, registry(how.plugins, how.workload_file), how)
