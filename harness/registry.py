"""Finds the one-file plug-ins: the shipped ones, the user's (--plugins, PATH.py:NAME) and installed entry points.

A plug-in is a module with one constant, TREATMENT or WORKLOAD, whose name is the file's stem; importing a shipped one
never imports torch. A training script of the user's, named PATH.py:NAME where a workload is asked for, is a module like
any other, and may hold several workloads under names of its own. Every plug-in has a module name that any process can
import: `harness.treatments.x`, `harness.workloads.x`, or `harness.plugins.x` for the user's.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import harness.plugins
import harness.treatments
import harness.workloads
from harness.arms import NAME, nearest
from harness.spec import Source, Treatment, UsageError, Workload

OWN_WORKLOAD = re.compile(r"(?P<path>.+\.py)(?::(?P<constant>.*))?", re.DOTALL)
"""A workload in a file of the user's; without :NAME it is the file's WORKLOAD."""


@dataclass(frozen=True)
class Registry:
    """The treatments and workloads at hand, and where each one's code lies."""

    treatments: Mapping[str, Treatment]
    workloads: Mapping[str, Workload]
    sources: Mapping[str, Source]
    """By "treatment:name" and "workload:name"."""
    own: Mapping[str, str] = field(default_factory=dict)
    """The names of the workloads that were asked for as PATH.py:NAME, by that text."""

    def workload(self, name: str) -> Workload:
        name = self.own.get(name, name)
        if name not in self.workloads:
            raise UsageError(
                f"no workload named '{name}'{nearest(name, self.workloads)} `harness list workloads` shows all; "
                "your own is given as path/to/train.py:NAME"
            )
        return self.workloads[name]

    def workload_source(self, name: str) -> Source:
        return self.sources[f"workload:{name}"]

    def treatment_source(self, name: str) -> Source:
        return self.sources[f"treatment:{name}"]


@dataclass(frozen=True)
class _Wanted:
    """A constant of a plug-in file, or the absence of one that need not be there."""

    module: str
    path: Path
    constant: str
    kind: type[Treatment] | type[Workload]
    text: str = ""
    """How the user named it, where it has to exist."""


def load_registry(plugin_folders: Iterable[Path] = (), workloads: Iterable[str] = ()) -> Registry:
    """Import every plug-in file, and the workloads named PATH.py:NAME among `workloads`.

    A broken shipped or user file is a `UsageError` that names it.
    """
    found: dict[str, dict[str, Treatment | Workload]] = {"treatment": {}, "workload": {}}
    sources: dict[str, Source] = {}
    own: dict[str, str] = {}
    for wanted in dict.fromkeys(_wanted(plugin_folders, workloads)):
        value = _value(wanted)
        if value is None:
            continue
        _check_name(value.name, wanted.path)
        if isinstance(value, Workload):
            _check_complete(value, wanted.path)
        kind = wanted.kind.__name__.lower()
        key = f"{kind}:{value.name}"
        source = Source(name=value.name, module=wanted.module, path=str(wanted.path), constant=wanted.constant)
        if sources.setdefault(key, source) != source:
            raise UsageError(
                f"{wanted.path}: {kind} '{value.name}' exists already in {sources[key].path}; rename one, by its name="
            )
        found[kind][value.name] = value
        if wanted.text:
            own[wanted.text] = value.name
    treatments, known = (dict(sorted(found[kind].items())) for kind in found)
    return Registry(treatments, known, sources, own)  # type: ignore[arg-type]  # each under its own kind


def load_plugin(source: Source) -> Treatment | Workload:
    """Import one plug-in in the child, by the module name that the parent gave it."""
    value: Treatment | Workload = getattr(_import(source.module, Path(source.path)), source.constant)
    return value


def add_plugin_folder(folder: Path) -> None:
    """Make a folder's files importable as `harness.plugins.<stem>`, here and (by the launcher) in every child.

    By their own names too, so that a training script finds the modules beside it; after all installed ones.
    """
    if str(folder) not in harness.plugins.__path__:
        harness.plugins.__path__.append(str(folder))
        sys.path.append(str(folder))


def _wanted(folders: Iterable[Path], workloads: Iterable[str]) -> Iterator[_Wanted]:
    for module, path in _plugin_modules(folders):
        yield _Wanted(module, path, "TREATMENT", Treatment)
        yield _Wanted(module, path, "WORKLOAD", Workload)
    for text in workloads:
        if match := OWN_WORKLOAD.fullmatch(text):
            path = _user_file(Path(match["path"]), text)
            yield _Wanted(_user_module(path), path, match["constant"] or "WORKLOAD", Workload, text)


def _value(wanted: _Wanted) -> Treatment | Workload | None:
    """The constant; None where a file has none and need not have one."""
    loaded = _import(wanted.module, wanted.path)
    other = loaded.__file__
    if wanted.module.startswith(f"{harness.plugins.__name__}.") and other and Path(other).resolve() != wanted.path:
        raise UsageError(f"{wanted.path}: another plug-in file is named {wanted.path.name} too ({other}); rename one")
    value = getattr(loaded, wanted.constant, None)
    if value is None and wanted.text:
        there = [name for name, each in vars(loaded).items() if isinstance(each, Workload)]
        what = f"it has {', '.join(there)}" if there else f"give it one: {wanted.constant} = Workload(name=..., ...)"
        raise UsageError(f"{wanted.path} defines no {wanted.constant}; {what}")
    if value is not None and not isinstance(value, wanted.kind):
        raise UsageError(
            f"{wanted.path}: {wanted.constant} is a {type(value).__name__}; "
            f"it must be a harness.spec.{wanted.kind.__name__}"
        )
    return value


def _plugin_modules(folders: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for package in (harness.treatments, harness.workloads):
        for folder in map(Path, package.__path__):
            for path in _python_files(folder):
                yield f"{package.__name__}.{path.stem}", path
    for path in (path for folder in folders for path in _user_folder(folder)):
        _check_name(path.stem, path)
        yield _user_module(path), path
    for entry in importlib.metadata.entry_points(group="harness.plugins"):
        yield entry.module, _installed_file(entry.module)


def _user_module(path: Path) -> str:
    """The module name of a file of the user's, made importable."""
    add_plugin_folder(path.parent)
    return f"harness.plugins.{path.stem}"


def _installed_file(module: str) -> Path:
    """Where an entry point's module lies; its bare name where that cannot be found, for the import to complain of."""
    try:
        spec = importlib.util.find_spec(module)
    except (Exception, SystemExit):  # the package around it is missing or broken: so the import will say
        spec = None
    return Path(spec.origin if spec and spec.origin else module)


def _python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))


def _user_folder(folder: Path) -> list[Path]:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise UsageError(f"plug-in folder {folder} {what}; give a folder of .py files with --plugins")
    return [path.resolve() for path in _python_files(folder)]


def _user_file(path: Path, text: str) -> Path:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"workload '{text}': {path} {what}; give a file and the Workload in it, as PATH.py:NAME")
    if "." in path.stem:
        raise UsageError(f"workload '{text}': Python cannot import {path.name}; rename it without the dot in its name")
    return path.resolve()


def _check_name(name: str, path: Path) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError(
            f"{path}: '{name}' is no plug-in name; use lower-case letters, digits and '_', a letter first, 64 at most"
        )


def _check_complete(workload: Workload, path: Path) -> None:
    """Refuse what could only fail in the child, where the reason is harder to see."""

    def lacks(what: str, remedy: str) -> UsageError:
        return UsageError(f"{path}: workload '{workload.name}' {what}; {remedy}")

    if unknown := set(workload.modes) - {"train", "infer"} or (not workload.modes and {"none at all"}):
        raise lacks(f"has the modes {', '.join(sorted(unknown))}", "they are of train and infer")
    if workload.plain:
        return
    needed = {"dataset": "every mode", "items": "every mode"}
    if workload.model:
        needed |= {"loss": "mode train", "optimizer": "mode train"} if "train" in workload.modes else {}
        needed |= {"predict": "mode infer"} if "infer" in workload.modes else {}
    for part, needed_by in needed.items():
        if getattr(workload, part) is None:
            raise lacks(
                f"has no {part}, which {needed_by} needs", f"give it {part}=..., or leave that out of modes=(...)"
            )
    for preset, params in workload.presets.items():
        if "batch" not in params:
            raise lacks(f"has no batch in its preset {preset}", 'give every preset its "batch": the items of a step')


def _import(module: str, path: Path) -> ModuleType:
    try:
        return importlib.import_module(module)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        sys.modules.pop(module, None)
        guard = "; put what it does when run under `if __name__ == '__main__':`" if _exits(error) else ""
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}{guard}") from error


def _exits(error: BaseException) -> bool:
    """Whether a script did not stop at its definitions: it read the command line, say, which is not its own."""
    return isinstance(error, SystemExit)
