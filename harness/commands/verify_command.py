"""`harness verify RESULTS`: names every damaged, altered, orphaned, foreign or newer file; repairs nothing silently."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import json_option, open_store, print_table, results_folders, to_json
from harness.commands.exit_codes import Exit


@click.command("verify")
@results_folders
@click.option("--quarantine", is_flag=True, help="move the damaged files out, into RESULTS/quarantine")
@json_option
def command(results: tuple[Path, ...], quarantine: bool, as_json: bool) -> int:
    """Check results folders."""
    from harness import store as stores

    findings = []
    for folder in results:
        root = open_store(folder).root
        found = stores.verify(root)
        findings += [(folder, finding) for finding in found]
        for moved in stores.quarantine(root, found) if quarantine else ():
            click.echo(f"moved out: {moved}", err=as_json)
    if as_json:
        click.echo(
            to_json(
                [
                    {"folder": str(folder), "path": str(f.path), "kind": f.kind, "reason": f.reason}
                    for folder, f in findings
                ]
            )
        )
    elif findings:
        print_table(
            "findings",
            ("folder", "file", "kind", "reason"),
            [(str(folder), str(f.path), f.kind, f.reason) for folder, f in findings],
        )
    else:
        click.echo("every file is whole")
    return Exit.FINE if all(finding.harmless for _, finding in findings) else Exit.INTEGRITY
