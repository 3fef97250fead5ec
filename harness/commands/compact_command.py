"""`harness compact RESULTS`: merges the many small files of a results folder; loses nothing, whenever it is killed."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import open_store, results_folders


@click.command("compact")
@results_folders
def command(results: tuple[Path, ...]) -> int:
    """Merge the files of results folders. Every run does so at its end where there are many."""
    from harness.store import compact

    for folder in results:
        click.echo(f"{folder}: {compact(open_store(folder), at_least=1)} trials merged")
    return 0
