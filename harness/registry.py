"""Finds the one-file plug-ins: the shipped ones, the user's (--plugins, --workload-file) and installed entry points.

A plug-in is a module with one constant, TREATMENT or WORKLOAD, whose name is the file's stem. Importing one never
imports torch. Every plug-in has a module name that any process can import: `harness.treatments.x`,
`harness.workloads.x`, or `harness.plugins.x` for the user's.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import harness.plugins
import harness.treatments
import harness.workloads
from harness.arms import NAME, nearest
from harness.spec import Source, Treatment, UsageError, Workload


@dataclass(frozen=True)
class Registry:
    """The treatments and workloads at hand, and where each one's code lies."""

    treatments: Mapping[str, Treatment]
    workloads: Mapping[str, Workload]
    sources: Mapping[str, Source]
    """By "treatment:name" and "workload:name"."""

    def workload(self, name: str) -> Workload:
        if name not in self.workloads:
            raise UsageError(
                f"no workload named '{name}'{nearest(name, self.workloads)} `harness list workloads` shows all"
            )
        return self.workloads[name]

    def workload_source(self, name: str) -> Source:
        return self.sources[f"workload:{name}"]

    def treatment_source(self, name: str) -> Source:
        return self.sources[f"treatment:{name}"]


def load_registry(plugin_folders: Iterable[Path] = (), workload_files: Iterable[Path] = ()) -> Registry:
    """Import every plug-in file; a broken shipped or user file is a `UsageError` that names it."""
    treatments: dict[str, Treatment] = {}
    workloads: dict[str, Workload] = {}
    sources: dict[str, Source] = {}
    asked_for = {path.resolve() for path in workload_files}
    for module, path in _plugin_modules(plugin_folders, workload_files):
        loaded = _import(module, path)
        if path in asked_for and not hasattr(loaded, "WORKLOAD"):
            raise UsageError(f"{path} defines no WORKLOAD; give it one: WORKLOAD = Workload(name=..., ...)")
        for constant, kind, found in (("TREATMENT", Treatment, treatments), ("WORKLOAD", Workload, workloads)):
            value = getattr(loaded, constant, None)
            if value is None:
                continue
            if not isinstance(value, kind):
                raise UsageError(
                    f"{path}: {constant} is a {type(value).__name__}; it must be a harness.spec.{kind.__name__}"
                )
            _check_name(value.name, path)
            key = f"{constant.lower()}:{value.name}"
            if key in sources:
                raise UsageError(
                    f"{path}: {constant.lower()} '{value.name}' exists already in {sources[key].path}; rename one"
                )
            found[value.name] = value  # type: ignore[assignment]
            sources[key] = Source(name=value.name, module=module, path=str(path))
    return Registry(dict(sorted(treatments.items())), dict(sorted(workloads.items())), sources)


def load_plugin(source: Source, constant: str) -> Treatment | Workload:
    """Import one plug-in in the child, by the module name that the parent gave it."""
    value: Treatment | Workload = getattr(_import(source.module, Path(source.path)), constant)
    return value


def add_plugin_folder(folder: Path) -> None:
    """Make a folder's files importable as `harness.plugins.<stem>`, here and (by the launcher) in every child."""
    if str(folder) not in harness.plugins.__path__:
        harness.plugins.__path__.append(str(folder))


def _plugin_modules(folders: Iterable[Path], files: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for package in (harness.treatments, harness.workloads):
        for folder in map(Path, package.__path__):
            for path in _python_files(folder):
                yield f"{package.__name__}.{path.stem}", path
    seen: dict[str, Path] = {}
    for path in [*(path for folder in folders for path in _user_folder(folder)), *map(_user_file, files)]:
        _check_name(path.stem, path)
        if seen.setdefault(path.stem, path) != path:
            raise UsageError(f"{path}: another plug-in file is named {path.name} too ({seen[path.stem]}); rename one")
        add_plugin_folder(path.parent)
        yield f"harness.plugins.{path.stem}", path
    for entry in importlib.metadata.entry_points(group="harness.plugins"):
        yield entry.module, _installed_file(entry.module)


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


def _user_file(path: Path) -> Path:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"workload file {path} {what}; give a .py file that defines WORKLOAD with --workload-file")
    return path.resolve()


def _check_name(name: str, path: Path) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError(
            f"{path}: '{name}' is no plug-in name; use lower-case letters, digits and '_', a letter first, 64 at most"
        )


def _import(module: str, path: Path) -> ModuleType:
    try:
        return importlib.import_module(module)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        sys.modules.pop(module, None)
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
