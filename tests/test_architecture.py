"""The import table of docs/architecture.md, enforced on the sources: who may know whom, and who never loads what."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PACKAGE = CHECKOUT / "harness"

CORE = {"spec", "record", "arms"}
"""The words everything is said in; they import none of the rest."""
PARENT = CORE | {"registry", "config", "identity", "machine", "plan"}

ALLOWED: dict[str, set[str]] = {
    "spec": set(),
    "record": set(),
    "steady": set(),
    "arms": {"spec"},
    "registry": {"spec", "arms", "plugins", "treatments", "workloads"},
    "config": CORE,
    "identity": CORE,
    "plan": CORE | {"registry", "identity"},
    "nvml": {"spec", "record"},
    "machine": CORE | {"identity", "nvml"},
    "work_folder": set(),
    "launch": CORE | {"plugins", "work_folder"},
    "telemetry": CORE | {"nvml"},
    "collect": CORE | {"launch", "telemetry"},
    "device_lock": CORE,
    "worktree": CORE,
    "status": CORE | {"identity"},
    "select": CORE,
    "trials": CORE | {"registry", "identity", "plan"},
    "trial_log": CORE | {"plan"},
    "session": PARENT
    | {"launch", "telemetry", "collect", "status", "trials", "trial_log", "store", "metrics", "judge"},
    "store": CORE | {"identity"},
    "child": CORE | {"registry", "steady"},
    "treatments": {"spec", "workloads"},
    "workloads": {"spec", "workloads"},
    "plugins": set(),
    "templates": {"spec"},
    "metrics": {"record"},
    "judge": CORE | {"metrics", "steady"},
    "report": CORE | {"metrics", "judge"},
    "simulate": CORE | {"identity", "steady", "store", "metrics", "judge"},
    "selftest": CORE | {"steady", "judge", "simulate"},
    "doctor": PARENT | {"nvml"},
    "claims": PARENT | {"metrics", "judge"},
    "checking": PARENT,
    "catalogue": PARENT | {"metrics"},
    "diagnose": CORE | {"metrics", "judge"},
}
"""Which parts of the package a part may import at module level, besides itself. `commands` may import all of them."""

NEVER: dict[str, set[str]] = {
    "spec": {"torch", "numpy", "pandas"},
    "record": {"torch", "numpy", "pandas"},
    "arms": {"torch", "numpy", "pandas"},
    "steady": {"torch", "pandas"},
    "registry": {"torch", "numpy", "pandas"},
    "config": {"torch", "numpy", "pandas"},
    "identity": {"torch", "pandas"},
    "plan": {"torch", "numpy", "pandas"},
    "trials": {"torch", "numpy", "pandas"},
    "trial_log": {"torch", "numpy", "pandas"},
    "session": {"torch"},
    "nvml": {"torch", "numpy", "pandas"},
    "machine": {"torch", "harness.child"},
    "collect": {"torch", "harness.child"},
    "device_lock": {"torch", "numpy", "pandas"},
    "worktree": {"torch", "numpy", "pandas"},
    "status": {"torch", "pandas"},
    "launch": {"torch", "harness.child"},
    "telemetry": {"torch", "harness.child"},
    "store": {"torch", "harness.judge"},
    "child": {
        "pyarrow", "pandas",
        "harness.plan", "harness.session", "harness.launch", "harness.store", "harness.judge", "harness.report",
    },
    "treatments": {"harness.child"},
    "workloads": {"harness.child"},
    "templates": {"harness.child"},
    "metrics": {"torch", "harness.judge"},
    "judge": {"torch", "harness.store", "harness.report"},
    "report": {"torch", "harness.store", "harness.launch"},
    "simulate": {"torch"},
    "selftest": {"torch"},
    "claims": {"torch", "pandas"},
    "checking": {"torch", "pandas"},
    "catalogue": {"torch", "pandas"},
    "commands": {"torch"},
}  # fmt: skip
"""What a part never imports, inside functions neither."""

TORCH = {"torch", "torchvision", "timm", "transformers"}
TORCH_AT_MODULE_LEVEL = ("harness/child/torch_side/", "workloads/nets/")
"""The only code that imports torch at module level; a workload imports its net inside a function."""


@dataclass(frozen=True)
class Import:
    """One imported module, and where. What is imported for type checkers only is not loaded, and does not count."""

    path: Path
    line: int
    target: str
    in_function: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(CHECKOUT)}:{self.line} imports {self.target}"

    @property
    def part(self) -> str:
        """The part of ours that is imported; empty for others' packages."""
        head, _, rest = self.target.partition(".")
        return rest.partition(".")[0] if head == "harness" else ""


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


SOURCES = [*python_files(PACKAGE), *python_files(CHECKOUT / "workloads")]
PLUGIN_NAMES = {
    path.stem
    for folder in (PACKAGE / "treatments", CHECKOUT / "workloads")
    for path in folder.glob("*.py")
    if not path.name.startswith("_")
}


def part_of(path: Path) -> str:
    """The row of the table that a source file stands in."""
    relative = path.relative_to(CHECKOUT)
    if relative.parts[0] == "workloads":
        return "workloads"
    return relative.parts[1].removesuffix(".py")


def imports_of(path: Path) -> Iterator[Import]:
    """Every import of a file; `from package import name` also counts as the module it may be."""
    for node, in_function in walk(ast.parse(path.read_text()), in_function=False):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, alias.name, in_function)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write the whole name"
            module = node.module or ""
            for alias in node.names:
                is_module = module.startswith("harness") and is_our_module(f"{module}.{alias.name}")
                yield Import(path, node.lineno, f"{module}.{alias.name}" if is_module else module, in_function)


def walk(node: ast.AST, *, in_function: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child, in_function
        inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from walk(child, in_function=inside)


def is_our_module(name: str) -> bool:
    where = CHECKOUT.joinpath(*name.split("."))
    return where.is_dir() or where.with_suffix(".py").is_file()


def matches(target: str, names: set[str]) -> bool:
    return any(target == name or target.startswith(f"{name}.") for name in names)


def broken(path: Path) -> Iterator[str]:
    part = part_of(path)
    for found in imports_of(path):
        if matches(found.target, NEVER.get(part, set())):
            yield f"{found}, which {part} never does"
        if part in ("commands", "__init__", "__main__"):
            continue
        if found.part == "commands":
            yield f"{found}; nothing imports commands"
        elif found.part and not found.in_function and found.part not in ALLOWED.get(part, set()) | {part, "__init__"}:
            yield f"{found}; {part} may import {', '.join(sorted(ALLOWED.get(part, set()))) or 'nothing of ours'}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_the_import_table_holds(path: Path) -> None:
    assert list(broken(path)) == []


def test_every_part_has_a_row() -> None:
    assert {part_of(path) for path in SOURCES} - set(ALLOWED) - {"commands", "__init__", "__main__"} == set()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_torch_is_imported_at_module_level_only_on_the_childs_torch_side(path: Path) -> None:
    if path.relative_to(CHECKOUT).as_posix().startswith(TORCH_AT_MODULE_LEVEL):
        return
    assert [str(found) for found in imports_of(path) if matches(found.target, TORCH) and not found.in_function] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_plug_ins_are_never_imported_by_name(path: Path) -> None:
    """Treatments do not know each other, and nothing knows them; workloads share only `data` and `nets`."""
    shared = {"harness.workloads.data", "harness.workloads.nets"}
    by_name = [
        str(found)
        for found in imports_of(path)
        if found.target.startswith(("harness.treatments.", "harness.workloads.")) and not matches(found.target, shared)
        if not found.target.rpartition(".")[2].startswith("_")
    ]
    assert by_name == []


def test_no_engine_file_names_a_treatment_or_a_workload() -> None:
    """Adding one edits nothing, so nothing may branch on one's name."""
    named = [
        f"{path.relative_to(CHECKOUT)}:{node.lineno} has the string {node.value!r}"
        for path in python_files(PACKAGE)
        if part_of(path) not in ("treatments", "workloads")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in PLUGIN_NAMES
    ]
    assert named == []


def test_the_registry_and_the_plan_load_no_heavy_library() -> None:
    """What `harness list` and `harness plan` must answer in under a second with."""
    code = (
        "import sys, harness.registry as r, harness.plan; r.load_registry();"
        "print(*sorted({'torch', 'pandas', 'scipy', 'matplotlib', 'transformers', 'timm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=CHECKOUT)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", [])
