"""`harness doctor`: what on this machine would disturb or prevent a measurement."""

from __future__ import annotations

import dataclasses

import click

from harness.commands.common import describe_machine, json_option, print_table, to_json
from harness.commands.exit_codes import Exit
from harness.doctor import checks


@click.command("doctor")
@json_option
def command(as_json: bool) -> int:
    """Run every check and say what to do."""
    machine = describe_machine()
    found = {name: check(machine) for name, check in checks().items()}
    if as_json:
        click.echo(to_json([{"name": name, **dataclasses.asdict(finding)} for name, finding in found.items()]))
    else:
        print_table(
            "doctor", ("check", "state", "what", "do"), [(n, f.state, f.text, f.remedy) for n, f in found.items()]
        )
    return Exit.CHECK_SAID_NO if any(finding.state == "error" for finding in found.values()) else Exit.FINE
