"""`harness judge EXPERIMENT`: the verdicts, recomputed from the results each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from harness.commands.common import find_stored, json_option, open_store, print_table, stored_names
from harness.commands.exit_codes import Exit
from harness.config import parse_experiment
from harness.judge import judge
from harness.judge.types import Comparison, Judgement
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
        click.echo(json.dumps({"verdicts": [as_row(comparison) for comparison in judgement.comparisons]}, indent=2))
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
    trials = latest_work(store.trials(spec_id))
    windows = store.windows([record.trial_id for record in trials if record.steps_rows])
    return judge(parse_experiment(store.spec(spec_id), spec_id), spec_id, trials, windows, last_look=True)


def as_row(comparison: Comparison) -> dict[str, Any]:
    """A comparison as `--json` prints it."""
    row = {name: getattr(comparison, name) for name in PRINTED}
    return {**row, "axes": dict(comparison.axes), "verdict": str(comparison.verdict)}


def print_judgement(judgement: Judgement) -> None:
    """The primary verdicts as a table, and what threatens them."""
    rows = [
        (
            comparison.workload + "".join(f" {key}={value}" for key, value in comparison.axes.items()),
            comparison.arm or "(plain)",
            _time(comparison.before),
            _time(comparison.after),
            _ratio(comparison),
            str(comparison.blocks),
            str(comparison.verdict).upper(),
            comparison.reason,
        )
        for comparison in judgement.comparisons
        if comparison.primary
    ]
    print_table(
        f"{judgement.experiment.name}: {judgement.experiment.question}",
        ("workload", "arm", "before", "after", "speedup", "blocks", "verdict", "why"),
        rows,
    )
    for threat in judgement.threats:
        click.echo(f"{threat.severity}: {threat.text}")


def _time(nanoseconds: float | None) -> str:
    if nanoseconds is None:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def _ratio(comparison: Comparison) -> str:
    if comparison.speedup is None:
        return "-"
    if comparison.ci_low is None or comparison.ci_high is None:
        return f"{comparison.speedup:.3f}"
    return f"{comparison.speedup:.3f} [{comparison.ci_low:.3f}, {comparison.ci_high:.3f}]"
