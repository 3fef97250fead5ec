"""`harness power EXPERIMENT --effect 1%`: how many blocks and minutes it takes to find an effect of that size."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from harness.commands.common import (
    describe_machine,
    experiment_options,
    json_option,
    plugin_options,
    results_option,
    to_json,
    workloads_option,
)
from harness.commands.plan_command import asked_for, described
from harness.commands.simulate_command import PROFILE_NAMES
from harness.config import parse_share
from harness.plan import make_plan


@click.command("power")
@click.argument("experiment", required=False)
@workloads_option()
@click.option("--effect", default="1%", show_default=True, help="true speedup to find, e.g. 1% or 0.05")
@click.option(
    "--profile", type=click.Choice(PROFILE_NAMES), default="base", show_default=True, help="size of the noise"
)
@experiment_options
@plugin_options
@results_option
@json_option
def command(
    experiment: str | None,
    workload: tuple[str, ...],
    effect: str,
    profile: str,
    plugins: tuple[Path, ...],
    results: Path,
    as_json: bool,
    **given: Any,
) -> int:
    """Simulate a true effect in EXPERIMENT (or in the default arms of -w).

    Says how often, and after how many blocks, it is found.
    """
    from harness.simulate import PROFILES, power

    wanted, plugged = asked_for(experiment, results, workload, plugins, given)
    plan = make_plan(wanted, plugged, describe_machine())
    family = sum(max(0, len(arms) - 1) for arms in plan.runs.values())
    found = power(
        parse_share(effect, "effect"), PROFILES[profile], plan.experiment.analysis, comparisons=max(1, family)
    )
    minutes = described(plan, plugged, results)["minutes"]
    per_block = (minutes["most"] - minutes["least"]) / max(
        1, plan.experiment.analysis.max_blocks - plan.experiment.analysis.min_blocks
    )
    if as_json:
        click.echo(to_json({**dataclasses.asdict(found), "minutes_per_block": per_block, "comparisons": family}))
        return 0
    click.echo(
        f"a true effect of {found.effect:+.1%} among {family} comparisons, noise profile {profile}: found in "
        f"{found.found:.0%}, called equivalent in {found.equivalent:.0%}, inconclusive in {found.inconclusive:.0%}; "
        f"{found.mean_blocks:.1f} blocks on average, {found.blocks_90} for nine of ten, "
        f"at about {per_block:.1f} minutes a block ({minutes['from']})"
    )
    return 0
