"""`harness selftest`: what the statistics reach, measured on experiments whose truth is known."""

from __future__ import annotations

import click

from harness.commands.common import json_option, print_table, to_json
from harness.commands.exit_codes import Exit


@click.command("selftest")
@click.option("--full", is_flag=True, help="the whole grid; takes some twenty minutes on two cores")
@click.option("--markdown", is_flag=True, help="print the table of docs/measurement.md")
@json_option
def command(full: bool, markdown: bool, as_json: bool) -> int:
    """Simulate, judge, and print each figure with its bound, what was reached, and the simulation's own error."""
    from harness.selftest import as_markdown, selftest

    figures = selftest(full=full)
    if as_json:
        click.echo(to_json(figures))
    elif markdown:
        click.echo(as_markdown(figures))
    else:
        rows = [
            (str(f.number), f.name, f"{f.side} {f.bound:g}", f"{f.reached:.4g}", f"{f.standard_error:.2g}",
             str(f.repetitions), "ok" if f.passed else "MISSED")
            for f in figures
        ]  # fmt: skip
        columns = ("#", "figure", "bound", "reached", "standard error", "repetitions", "")
        print_table("selftest", columns, rows)
    return Exit.FINE if all(figure.passed for figure in figures) else Exit.CHECK_SAID_NO
