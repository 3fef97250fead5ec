"""`harness simulate EXPERIMENT RESULTS`: a results folder with a known truth, for planning and for trying the judge."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from harness import identity
from harness.commands.common import (
    changed,
    describe_machine,
    experiment_options,
    find_experiment,
    open_store,
    plugin_options,
    with_plugins,
    workloads_option,
)
from harness.config import experiment_toml
from harness.plan import make_plan
from harness.record import TrialRecord, Window
from harness.spec import UsageError

PROFILE_NAMES = ("quiet", "base", "noisy")


@click.command("simulate")
@click.argument("experiment")
@click.argument("results", envvar="RESULTS", default="results-simulated", type=click.Path(path_type=Path))
@workloads_option()
@click.option(
    "--truth", default="", help='true speedups by arm, "amp_bf16=1.05 channels_last=1.00"; 1.00 where not named'
)
@click.option(
    "--profile", type=click.Choice(PROFILE_NAMES), default="base", show_default=True, help="size of the noise"
)
@click.option("--blocks", type=click.IntRange(1), default=13, show_default=True)
@click.option("--windows", type=click.IntRange(5), default=15, show_default=True, help="windows a process")
@click.option("--drift", type=float, help="sd of the linear drift over the session, 0.02 = 2 %")
@click.option("--slot", type=float, help="how much slower the last place of a block is than its first")
@click.option("--spikes", type=float, help="share of windows with a spike of 20 %")
@click.option("--autocorrelation", type=click.FloatRange(0, 0.99), help="of neighbouring windows")
@click.option("--hardware", default="simulated", show_default=True, help="name of the hardware class")
@click.option("--session", type=int, default=0, show_default=True, help="number of the session, for several of them")
@experiment_options
@plugin_options
def command(
    experiment: str,
    results: Path,
    workload: tuple[str, ...],
    truth: str,
    profile: str,
    blocks: int,
    windows: int,
    drift: float | None,
    slot: float | None,
    spikes: float | None,
    autocorrelation: float | None,
    hardware: str,
    session: int,
    plugins: tuple[Path, ...],
    **given: Any,
) -> int:
    """Write a results folder as EXPERIMENT would leave it if the speedups of --truth were true."""
    from harness.simulate import PROFILES, parse_truth, simulate

    wanted = changed(find_experiment(experiment, None), {"workloads": workload, **given})
    plan = make_plan(*with_plugins(wanted, plugins), describe_machine())
    wishes = {"drift": drift, "slot": slot, "spike_rate": spikes, "autocorrelation": autocorrelation}
    noise = dataclasses.replace(PROFILES[profile], **{key: value for key, value in wishes.items() if value is not None})
    store = open_store(results, writable=True)
    spec_id = identity.spec_id(plan.experiment)
    made = simulate(
        plan.experiment,
        spec_id,
        parse_truth(truth, plan.experiment.arms),
        noise,
        blocks=blocks,
        seed=plan.experiment.seed,
        windows=windows,
        hardware=hardware,
        session=session,
    )
    if {record.trial_id for record in made.records} & {record.trial_id for record in store.trials(spec_id)}:
        raise UsageError(f"{results} holds this simulation already; give another --seed, --session or folder")
    store.write_spec(spec_id, experiment_toml(plan.experiment))
    for record in made.records:
        store.write_trial(record, as_windows(record, made.windows[record.trial_id]), [])
    click.echo(f"{len(made.records)} simulated trials in {results}; `harness judge latest {results}` judges them")
    return 0


def as_windows(record: TrialRecord, columns: Any) -> list[Window]:
    """Columns as rows."""
    names = [name for name in columns if name != "trial_id"]
    rows = zip(*(columns[name] for name in names), strict=True)
    return [Window(trial_id=record.trial_id, **{n: int(v) for n, v in zip(names, row, strict=True)}) for row in rows]
