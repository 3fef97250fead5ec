"""`harness status EXPERIMENT`: what is planned, done, failed and superseded, derived from the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness import identity
from harness.collect import to_json as params_to_json
from harness.commands.common import (
    changed,
    describe_machine,
    experiment_options,
    find_experiment,
    json_option,
    open_store,
    plugin_options,
    print_table,
    to_json,
    with_plugins,
    workloads_option,
)
from harness.plan import Plan, make_plan
from harness.registry import Registry
from harness.status import PlannedCell, Present, derive_status, no_longer_planned


@click.command("status")
@click.argument("experiment", default="latest")
@click.argument("results", envvar="RESULTS", default="results", type=click.Path(path_type=Path))
@workloads_option()
@experiment_options
@plugin_options
@json_option
def command(
    experiment: str,
    results: Path,
    workload: tuple[str, ...],
    plugins: tuple[Path, ...],
    as_json: bool,
    **given: Any,
) -> int:
    """Show how far EXPERIMENT is here and now, and why earlier trials no longer count."""
    store, machine = open_store(results), describe_machine()
    wanted = changed(find_experiment(experiment, store), {"workloads": workload, **given})
    wanted, plugged = with_plugins(wanted, plugins)
    plan = make_plan(wanted, plugged, machine)
    cells = planned_cells(plan, plugged)
    sources = identity.code_parts(
        [plugged.workload_source(name) for name in plan.experiment.workloads]
        + [plugged.treatment_source(use.name) for arm in plan.arms.values() for use in arm.uses]
    )
    present = Present(
        base_env_id=machine.base_env_id,
        hardware_id=machine.hardware_id,
        facts=[*machine.facts, *identity.code_facts(sources)],
    )
    trials = store.trials(identity.spec_id(plan.experiment))
    found = derive_status(cells, trials, present, store.environment)
    if as_json:
        click.echo(to_json(found))
        return 0
    rows = [
        (each.cell.workload, each.cell.arm or "(baseline)", each.state, str(each.blocks), str(each.failed),
         str(each.discarded), str(each.superseded), str(each.simulated), "; ".join(each.reasons))
        for each in found
    ]  # fmt: skip
    columns = ("workload", "arm", "state", "blocks", "failed", "discarded", "superseded", "simulated", "why")
    print_table(plan.experiment.name, columns, rows)
    if unplanned := no_longer_planned(cells, trials):
        click.echo(f"and {unplanned} trials of parameters or arms that the plan no longer has")
    return 0


def planned_cells(plan: Plan, plugged: Registry) -> list[PlannedCell]:
    """Every arm at every place, with the code it would run now."""
    cells = []
    for place in plan.places:
        for text, arm in plan.arms.items():
            sources = [plugged.workload_source(place.workload)]
            sources += [plugged.treatment_source(use.name) for use in arm.uses]
            cells.append(
                PlannedCell(
                    workload=place.workload,
                    params_json=params_to_json(dict(place.params)),
                    arm=text,
                    code_id=identity.code_id(identity.code_parts(sources)),
                )
            )
    return cells
