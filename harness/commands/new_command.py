"""`harness new workload|treatment NAME`: writes a working plug-in to start from."""

from __future__ import annotations

from pathlib import Path

import click

import harness.templates
from harness.arms import NAME
from harness.registry import load_registry
from harness.spec import UsageError

KINDS = ("workload", "treatment")


@click.command("new")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option("--to", "folder", default="plugins", show_default=True, type=click.Path(path_type=Path),
              help="folder to write it to, made if it is missing")  # fmt: skip
def command(kind: str, name: str, folder: Path) -> int:
    """Write a commented workload or treatment that runs as it is, as NAME.py in a folder for --plugins."""
    if not NAME.fullmatch(name):
        raise UsageError(f"'{name}' is no name for a {kind}; use lower-case letters, digits and '_', a letter first")
    registry = load_registry([folder] if folder.is_dir() else [])
    if taken := registry.sources.get(f"{kind}:{name}"):
        raise UsageError(f"a {kind} named '{name}' exists already in {taken.path}; choose another name")
    path = folder / f"{name}.py"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template(kind).replace("NAME", name))
    except FileExistsError:
        raise UsageError(f"{path} exists already; choose another name, or another folder with --to") from None
    click.echo(f"{path} is written. It runs as it is: {example(kind, name, folder)}")
    return 0


def template(kind: str) -> str:
    """The file that is written, with NAME for the name."""
    (folder,) = map(Path, harness.templates.__path__)
    return (folder / f"{kind}.py").read_text(encoding="utf-8")


def example(kind: str, name: str, folder: Path) -> str:
    """A command that measures it."""
    if kind == "workload":
        return f"harness run --plugins {folder} -w {name} --preset tiny"
    return f"harness run --plugins {folder} -w gpt2_small --treatments {name} --preset tiny"
