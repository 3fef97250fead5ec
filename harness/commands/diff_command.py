"""`harness diff RUN_A RUN_B`: what differs between the environments of two stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from harness import identity
from harness.commands.common import json_option, open_store, print_table, to_json
from harness.record import Fact
from harness.spec import UsageError
from harness.store import Store


@click.command("diff")
@click.argument("run_a")
@click.argument("run_b")
@click.argument("results", envvar="RESULTS", default="results", type=click.Path(path_type=Path))
@json_option
def command(run_a: str, run_b: str, results: Path, as_json: bool) -> int:
    """Name every fact that differs between RUN_A and RUN_B: session, trial or environment ids, or their beginnings."""
    store = open_store(results)
    changes = identity.compare_facts(facts_of(run_a, store), facts_of(run_b, store))
    if as_json:
        click.echo(to_json(changes))
    elif changes:
        rows = [(change.path, str(change.before), str(change.after), change.kind) for change in changes]
        print_table("differences", ("fact", "a", "b", "kind"), rows)
    else:
        click.echo("no fact differs")
    return 0


def facts_of(text: str, store: Store) -> list[Fact]:
    """The environment of the first trial whose own, session's or environment's id begins so."""
    for record in store.trials():
        if any(each.startswith(text) for each in (record.trial_id, record.session_id, record.environment_id)):
            return store.environment(record.environment_id)
    raise UsageError(f"no stored run '{text}'; `harness list runs` and the column session_id of trials name them")
