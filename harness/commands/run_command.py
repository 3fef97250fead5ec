"""`harness run EXPERIMENT`: measure an experiment file, or go on with a stored one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.commands.common import (
    changed,
    experiment_options,
    find_experiment,
    open_store,
    options,
    plugin_options,
    registry,
    reports_option,
)
from harness.commands.measuring import measure_and_report, measuring_options


@click.command("run")
@click.argument("experiment")
@click.argument("results", envvar="RESULTS", default="results", type=click.Path(path_type=Path))
@click.option("--workload", "-w", multiple=True, help="workload(s), in place of those of the experiment")
@experiment_options
@plugin_options
@reports_option
@options(*measuring_options)
def command(
    experiment: str,
    results: Path,
    workload: tuple[str, ...],
    plugins: tuple[Path, ...],
    workload_file: tuple[Path, ...],
    reports: Path,
    trial_timeout: str,
    wait: str,
    on_bad_item: str,
    new_session: bool,
    keep_work: bool,
    strict: bool,
    **given: Any,
) -> int:
    """Measure EXPERIMENT (a .toml file, a name in experiments/, a stored spec id, or latest) into RESULTS."""
    store = open_store(results) if results.is_dir() else None
    return measure_and_report(
        changed(find_experiment(experiment, store), {"workloads": workload, **given}),
        registry(plugins, workload_file),
        results=results,
        reports=reports,
        trial_timeout=trial_timeout,
        wait=wait,
        on_bad_item=on_bad_item,
        new_session=new_session,
        keep_work=keep_work,
        strict=strict,
    )
