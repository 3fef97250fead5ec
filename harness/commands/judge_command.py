"""`harness judge EXPERIMENT`: the verdicts, recomputed from the results each time."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import click

from harness.commands.common import find_stored, json_option, open_store, print_table, stored_names, to_json
from harness.commands.exit_codes import Exit
from harness.config import parse_experiment
from harness.judge import judge
from harness.judge.types import Calibration, Comparison, Judgement
from harness.select import latest_work
from harness.spec import UsageError
from harness.store import Store

PRINTED = (
    "workload", "mode", "preset", "axes", "arm", "baseline", "metric", "before", "after", "unit", "speedup", "ci_low",
    "ci_high", "ci_level", "raw_ci_low", "raw_ci_high", "blocks", "verdict", "reason",
)  # fmt: skip


@click.command("judge")
@click.argument("experiment", default="latest")
@click.argument("results", envvar="RESULTS", default="results", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="exit code 3 where a verdict is inconclusive")
@json_option
def command(experiment: str, results: Path, strict: bool, as_json: bool) -> int:
    """Print the verdicts of EXPERIMENT (a stored spec id, its name, or latest)."""
    store = open_store(results)
    judgement = judge_stored(stored_spec(experiment, store), store)
    if as_json:
        click.echo(to_json(as_values(judgement)))
    else:
        print_judgement(judgement)
    undecided = any(comparison.verdict == "inconclusive" for comparison in judgement.comparisons if comparison.primary)
    return Exit.INCONCLUSIVE if strict and undecided else Exit.FINE


def stored_spec(text: str, store: Store) -> str:
    """The stored spec id that EXPERIMENT means."""
    spec_id = find_stored(text, store)
    if spec_id is None:
        names = sorted(stored_names(store))
        raise UsageError(
            f"no stored experiment '{text}'; there are {', '.join(names) or 'none'} (or give a spec id, or latest)"
        )
    return spec_id


def judge_stored(spec_id: str, store: Store) -> Judgement:
    """Judge what is stored of one experiment, without what later code or environments superseded."""
    every = store.trials(spec_id)
    trials = latest_work(every)
    kept = {record.trial_id for record in trials}
    experiment = parse_experiment(store.spec(spec_id), spec_id)
    return judge(
        experiment,
        spec_id,
        trials,
        store.windows([record.trial_id for record in trials if record.steps_rows]),
        last_look=True,
        superseded=[record for record in every if record.trial_id not in kept],
        stored=() if experiment.is_aa else stored_calibrations(store),
    )


def stored_calibrations(store: Store) -> list[Calibration]:
    """What every A/A of the folder found; one that this version cannot read is none."""
    found: list[Calibration] = []
    for spec_id, toml in store.specs().items():
        with contextlib.suppress(UsageError):
            if parse_experiment(toml, spec_id).is_aa:
                found += judge_stored(spec_id, store).calibrations
    return found


def as_values(judgement: Judgement) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "experiment": judgement.experiment.name,
        "spec_id": judgement.spec_id,
        "verdicts": [as_row(each) for each in judgement.comparisons],
        "calibrations": [dataclasses.asdict(each) for each in judgement.calibrations],
        "threats": [dataclasses.asdict(each) for each in judgement.threats],
        "sessions": [dataclasses.asdict(each) for each in judgement.history],
    }


def as_row(comparison: Comparison) -> dict[str, Any]:
    """A comparison as `--json` prints it."""
    row = {name: getattr(comparison, name) for name in PRINTED}
    return {**row, "axes": dict(comparison.axes), "verdict": str(comparison.verdict)}


def print_judgement(judgement: Judgement) -> None:
    """The primary verdicts as a table, what threatens them, and every session that there was."""
    title = f"{judgement.experiment.name}: {judgement.experiment.question}"
    if judgement.experiment.is_aa and judgement.calibrations:
        print_table(title, CALIBRATION_COLUMNS, [_calibration_row(each) for each in judgement.calibrations])
    else:
        columns = ("workload", "arm", "metric", "before", "after", "speedup", "blocks", "verdict", "why")
        print_table(title, columns, [_verdict_row(each) for each in judgement.comparisons if each.primary])
    for threat in judgement.threats:
        click.echo(f"{threat.severity}: {threat.text}")
    for number, each in enumerate(judgement.history, 1):
        state = f"{each.counted} timed trials count" if each.counted else "superseded or without a timed trial"
        click.echo(f"session {number}: {each.started_at[:19]} UTC, {each.blocks} blocks, {each.trials} trials, {state}")


def _verdict_row(comparison: Comparison) -> tuple[str, ...]:
    return (
        comparison.workload + "".join(f" {key}={value}" for key, value in comparison.axes.items()),
        comparison.arm or "(plain)",
        comparison.metric,
        _value(comparison.before, comparison.unit),
        _value(comparison.after, comparison.unit),
        _ratio(comparison),
        str(comparison.blocks),
        str(comparison.verdict).upper(),
        comparison.reason,
    )


CALIBRATION_COLUMNS = (
    "workload", "blocks", "pairs", "outside 95 %", "expected", "judged different", "noise floor", "found with 4 blocks",
    "with 9", "with 28", "a place later", "blocks alike",
)  # fmt: skip


def _calibration_row(each: Calibration) -> tuple[str, ...]:
    return (
        each.label,
        str(each.blocks),
        str(each.comparisons),
        str(each.false_positives),
        f"{each.comparisons / 20:.1f}",
        str(each.claims),
        f"{each.noise_floor:.2%}",
        *(f"{each.detectable[blocks]:.2%}" for blocks in (4, 9, 28)),
        f"{each.order_effect:+.2%} (p {each.order_p:.2g})",
        f"{each.dependence:+.2f} (p {each.dependence_p:.2g})",
    )


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    for larger, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)) if unit == "ns" else ():
        if value >= size:
            return f"{value / size:.3g} {larger}"
    return f"{value:.3g} {unit}"


def _ratio(comparison: Comparison) -> str:
    if comparison.speedup is None:
        return "-"
    if comparison.ci_low is None or comparison.ci_high is None:
        return f"{comparison.speedup:.3f}"
    return f"{comparison.speedup:.3f} [{comparison.ci_low:.3f}, {comparison.ci_high:.3f}]"
