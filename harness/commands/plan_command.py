"""`harness plan`: what a run would measure and skip, and about how long it would take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.commands.bench_command import bench_experiment
from harness.commands.common import (
    changed,
    describe_machine,
    experiment_options,
    find_experiment,
    json_option,
    open_store,
    plugin_options,
    print_table,
    results_option,
    to_json,
    with_plugins,
    workloads_option,
)
from harness.plan import Plan, block_order, fewest_blocks, make_plan, trials_before, trials_in_round
from harness.registry import Registry, load_registry
from harness.spec import Experiment

ASSUMED_TRIAL_SECONDS = {"tiny": 10.0, "small": 30.0, "full": 60.0}
"""Used only where no trial of the workload is stored yet; the output says so."""


@click.command("plan")
@click.argument("experiment", required=False)
@workloads_option(envvar="WORKLOAD")
@experiment_options
@plugin_options
@results_option
@json_option
def command(
    experiment: str | None,
    workload: tuple[str, ...],
    plugins: tuple[Path, ...],
    results: Path,
    as_json: bool,
    **given: Any,
) -> int:
    """Show the trials of EXPERIMENT (or of the default arms), the skips with reasons, and the estimated minutes."""
    wanted, plugged = asked_for(experiment, results, workload, plugins, given)
    plan = make_plan(wanted, plugged, describe_machine())
    print(to_json(described(plan, plugged, results))) if as_json else show(plan, plugged, results)
    return 0


def asked_for(
    text: str | None, results: Path, workloads: tuple[str, ...], plugins: tuple[Path, ...], given: dict[str, Any]
) -> tuple[Experiment, Registry]:
    """The EXPERIMENT of a command line, or the default arms where it has none, and the plug-ins known to it."""
    if text is None:
        plugged = load_registry(plugins, workloads)
        return bench_experiment(tuple(plugged.workload(name).name for name in workloads), given), plugged
    store = open_store(results) if results.is_dir() else None
    return with_plugins(changed(find_experiment(text, store), {"workloads": workloads, **given}), plugins)


def trial_seconds(plan: Plan, results: Path) -> tuple[float, str]:
    """Typical seconds of a trial and where the figure comes from."""
    if (results / "trials").is_dir():
        names = {place.workload for place in plan.places}
        known = [
            record.duration_ns / 1e9
            for record in open_store(results).trials()
            if record.duration_ns and record.workload in names and record.preset == plan.experiment.preset
        ]
        if known:
            return sum(known) / len(known), f"mean of {len(known)} stored trials"
    return ASSUMED_TRIAL_SECONDS[plan.experiment.preset], "assumed: nothing of this kind is stored yet"


def described(plan: Plan, registry: Registry, results: Path) -> dict[str, Any]:
    """The plan as plain values."""
    analysis = plan.experiment.analysis
    seconds, source = trial_seconds(plan, results)
    blocks = {place: block_order(plan, place, 0, plan.treated(place)) for place in plan.places if plan.runs[place]}

    def minutes(count: int) -> float:
        return round((trials_before(plan, registry) + count * trials_in_round(plan)) * seconds / 60, 1)

    return {
        "experiment": plan.experiment.name,
        "device": plan.device,
        "preset": plan.experiment.preset,
        "baseline": plan.baseline,
        "trials": [
            {"workload": place.workload, "axes": dict(place.axes), "position": position, "arm": arm}
            for place, order in blocks.items()
            for position, arm in enumerate(order)
        ],
        "skips": [
            {"workload": skip.place.workload, "axes": dict(skip.place.axes), "arm": skip.arm, "reason": skip.reason}
            for skip in plan.skips
        ],
        "blocks": {"least": fewest_blocks(plan), "most": analysis.max_blocks},
        "minutes": {"least": minutes(fewest_blocks(plan)), "most": minutes(analysis.max_blocks), "from": source},
        "budget": analysis.budget,
    }


def show(plan: Plan, registry: Registry, results: Path) -> None:
    """Print the plan for a reader."""
    value = described(plan, registry, results)
    print_table(
        f"First block of {value['experiment']} on {value['device']}, preset {value['preset']}",
        ("workload", "position", "arm"),
        [(row["workload"], str(row["position"]), row["arm"] or "(baseline)") for row in value["trials"]],
    )
    for row in value["skips"]:
        click.echo(f"skip {row['workload']}: {row['arm'] or 'baseline'}: {row['reason']}")
    blocks, minutes = value["blocks"], value["minutes"]
    click.echo(
        f"{blocks['least']} to {blocks['most']} blocks: about {minutes['least']} to {minutes['most']} minutes "
        f"({minutes['from']}){', budget ' + value['budget'] if value['budget'] else ''}"
    )
