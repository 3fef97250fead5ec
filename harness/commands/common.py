"""What several verbs share: options, opening a results folder, finding an experiment, tables."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.arms import nearest, parse_params, split_arms
from harness.config import check_ranges, experiment_files, load_experiment, parse_experiment, parse_share
from harness.registry import Registry, load_registry
from harness.spec import Experiment, UsageError

if TYPE_CHECKING:
    from harness.machine import Machine
    from harness.store import Store


def options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply several option decorators as one."""

    def apply(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


def _option(name: str, variable: str, about: str, **more: Any) -> Callable[[Any], Any]:
    return click.option(f"--{name}", envvar=variable, help=f"{about} [{variable}]", **more)


results_option = _option("results", "RESULTS", "folder of results", default="results", type=click.Path(path_type=Path))
results_folders = click.argument(
    "results", nargs=-1, envvar="RESULTS", callback=lambda ctx, argument, given: given or (Path("results"),),
    type=click.Path(path_type=Path),
)  # fmt: skip
reports_option = _option("reports", "REPORTS", "folder of reports", default="reports", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")
plugin_options = click.option(
    "--plugins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="folder of your own one-file treatments and workloads",
)


def workloads_option(instead: str = ", in place of those of the experiment", **more: Any) -> Callable[[Any], Any]:
    """-w, of the verbs that measure an experiment or plan one."""
    return click.option(
        "--workload", "-w", multiple=True, help=f"a name, or path/to/train.py:NAME for your own{instead}", **more
    )


def _share(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """0.01 and 1% are the same."""
    return None if value is None else parse_share(value, option.name or "")


experiment_options = options(
    _option("treatments", "TREATMENTS", 'arms, separated by spaces: "amp_bf16 amp_bf16+channels_last"'),
    _option("baseline", "BASELINE", "the arm to compare with; plain PyTorch if not given"),
    _option("preset", "PRESET", "tiny, small or full"),
    _option("mode", "MODE", "train or infer"),
    _option("input", "INPUT", "loader or resident"),
    _option("device", "DEVICE", "auto, cpu or cuda"),
    _option("protocol", "PROTOCOL", "what is timed: steps, epochs, or requests, each waited for before the next"),
    click.option(
        "--param",
        "params",
        multiple=True,
        callback=lambda context, option, given: parse_params(given),
        help="a parameter of the workload in place of its preset's, e.g. batch=8; may be given again",
    ),
    _option("data", "DATA", "your own data: an image folder, or text with its tokenizer"),
    _option("seed", "SEED", "seed of order, data and weights", type=int),
    _option("budget", "BUDGET", "wall-clock time, e.g. 10m"),
    _option("max-blocks", "MAX_BLOCKS", "blocks at most", type=int),
    _option("rope", "ROPE", "half-width of what counts as no difference, e.g. 1%", callback=_share),
    _option(
        "precision", "PRECISION", "go on after a verdict until the half-width is below this, e.g. 1%", callback=_share
    ),
    click.option(
        "--open-ended/--looks",
        default=None,
        help="decide after any block, by a wider interval that holds at all of them, with no blocks at most",
    ),
    _option(
        "max-foreign-load",
        "MAX_FOREIGN_LOAD",
        "cores of other processes' work above which a block is dropped",
        type=float,
    ),
    _option("max-steal", "MAX_STEAL", "share of stolen CPU time above which a block is dropped", type=float),
)


def changed(experiment: Experiment, given: Mapping[str, Any]) -> Experiment:
    """The experiment with the command line's wishes in it; what was not given stays as the file says."""
    wishes = {key: value for key, value in given.items() if value not in (None, "", (), {})}
    if "treatments" in wishes:
        wishes |= {"arms": tuple(split_arms(wishes.pop("treatments"))), "design": "arms", "treatments": ()}
    if "params" in wishes:
        wishes["params"] = {**experiment.params, **wishes["params"]}
    analysis = {
        own: wishes.pop(key)
        for key, own in (
            ("budget", "budget"), ("max_blocks", "max_blocks"), ("rope", "rope"),
            ("precision", "precision"), ("open_ended", "open_ended"),
            ("max_foreign_load", "max_foreign_cpu_share"), ("max_steal", "max_steal_share"),
        )
        if key in wishes
    }  # fmt: skip
    if "protocol" in wishes:
        wishes |= {"measure": dataclasses.replace(experiment.measure, protocol=wishes.pop("protocol"))}
    wanted = dataclasses.replace(experiment, **wishes, analysis=dataclasses.replace(experiment.analysis, **analysis))
    check_ranges(wanted)
    return wanted


def with_plugins(experiment: Experiment, plugins: Sequence[Path]) -> tuple[Experiment, Registry]:
    """The experiment with its workloads by name, files of the user's among them, and all plug-ins known to it."""
    plugged = load_registry(plugins, experiment.workloads)
    names = dict.fromkeys(plugged.workload(text).name for text in experiment.workloads)
    return dataclasses.replace(experiment, workloads=tuple(names)), plugged


def open_store(results: Path, writable: bool = False) -> Store:
    """The results folder; made when it is to be written, refused in words when there is none to read."""
    from harness.store import Store

    store = Store(results.absolute())
    if writable:
        store.check_writable()
    elif not results.is_dir():
        what = "does not exist; `make bench WORKLOAD=...` makes one"
        if os.path.lexists(results):
            what = "is no folder, but a file or a link that leads nowhere; give another with RESULTS=..."
        raise UsageError(f"results folder {results} {what}")
    return store


def find_experiment(text: str, store: Store | None) -> Experiment:
    """EXPERIMENT: a path, a stem in experiments/, the first 8 or more characters of a stored spec id, or "latest"."""
    path = Path(text)
    if path.suffix == ".toml" or path.is_file():
        return load_experiment(path)
    files = experiment_files()
    if text in files:
        return load_experiment(files[text])
    if store is not None:
        spec_id = find_stored(text, store)
        if spec_id:
            return parse_experiment(store.spec(spec_id), spec_id)
    raise UsageError(
        f"no experiment '{text}'{nearest(text, files)} give a .toml file, one of {', '.join(files)}, "
        "8 or more characters of a stored spec id, or latest"
    )


def find_stored(text: str, store: Store) -> str | None:
    """The stored spec id that EXPERIMENT means, if any."""
    specs = store.specs()
    if text == "latest":
        latest = max(store.trials(), key=lambda record: record.trial_id, default=None)
        if latest is None:
            raise UsageError(f"there are no results in {store.root} yet; `make bench WORKLOAD=...` makes some")
        return latest.spec_id
    names = stored_names(store)
    if text in names:
        return names[text]
    return store.find_spec(text) if len(text) >= 8 and any(spec_id.startswith(text) for spec_id in specs) else None


def stored_names(store: Store) -> dict[str, str]:
    """Spec ids by the names of their experiments, of several with one name the one measured last.

    An experiment that this version cannot read is to be had by its id alone.
    """
    specs = store.specs()
    newest_first = dict.fromkeys(record.spec_id for record in reversed(store.trials()))
    names = {}
    for spec_id in (*specs, *reversed(newest_first)):
        with contextlib.suppress(UsageError, KeyError):
            names[parse_experiment(specs[spec_id], spec_id).name] = spec_id
    return names


def describe_machine() -> Machine:
    """This machine; imported late, since not every verb looks at it."""
    from harness.machine import describe

    return describe()


def to_json(value: Any) -> str:
    """Indented JSON of dataclasses, mappings and enums."""

    def plain(item: Any) -> Any:
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        if isinstance(item, Mapping):
            return dict(item)
        if isinstance(item, (set, frozenset, tuple)):
            return sorted(item)
        return str(item)

    return json.dumps(value, indent=2, default=plain)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on standard output; plain text where that is no terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
