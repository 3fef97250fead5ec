"""`harness run EXPERIMENT`: measure an experiment file, or go on with a stored one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.commands.common import experiment_options, workloads_option
from harness.commands.measuring import Measuring, measure_and_report, measuring_options
from harness.commands.plan_command import asked_for


@click.command("run")
@click.argument("experiment", required=False)
@click.argument("results", envvar="RESULTS", default="results", type=click.Path(path_type=Path))
@workloads_option()
@experiment_options
@measuring_options
def command(experiment: str | None, workload: tuple[str, ...], how: Measuring, **given: Any) -> int:
    """Measure EXPERIMENT (a .toml file, a name in experiments/, a stored spec id, or latest) into RESULTS.

    Without EXPERIMENT the workloads of -w are measured with the default arms of this device, or those of TREATMENTS.
    """
    wanted, plugged = asked_for(experiment, how.results, workload, how.plugins, given)
    return measure_and_report(wanted, plugged, how)
