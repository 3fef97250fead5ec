"""`harness catalogue`: prints docs/catalogue.md, made from the code and from results/reference/."""

from __future__ import annotations

from pathlib import Path

import click

from harness.registry import load_registry


@click.command("catalogue")
def command() -> int:
    """Print the catalogue of workloads, treatments, metrics and claims as Markdown, for docs/catalogue.md."""
    from harness.catalogue import catalogue
    from harness.config import load_ledger

    click.echo(catalogue(load_registry(), load_ledger(), reference_devices()), nl=False)
    return 0


def reference_devices() -> dict[str, tuple[str, ...]]:
    """Treatment -> devices on which its proof held, by the results that are kept with the sources."""
    from harness.catalogue import verified_on
    from harness.store import Store

    reference = Path(__file__).parents[2] / "results" / "reference"
    folders = sorted(path.parent for path in reference.glob("**/trials") if path.is_dir())
    return verified_on(trial for folder in folders for trial in Store(folder).trials())
