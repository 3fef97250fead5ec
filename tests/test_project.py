"""The repository itself: documents name what exists, files say what they are for, and the wheel is one package."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]

TOP_LEVEL = {
    "pyproject.toml", "harness", "workloads", "experiments", "results", "reports", "tests", "Makefile",
    "docs", "benchmarks", "README.md", "LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "constraints.txt",
}  # fmt: skip
"""What lies at the top besides dot files."""

REGISTRIES = r"pypi\.org|pythonhosted\.org|download\.pytorch\.org|anaconda\.org|ghcr\.io|docker\.io"
THIS_MACHINE = {str(CHECKOUT), sys.prefix, sys.base_prefix} - {"/usr", "/usr/local"}
"""What would tie the sources to the place where they were written."""


def tracked_files() -> list[Path]:
    """Every file that is or would be committed."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=CHECKOUT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [CHECKOUT / name for name in listed.split("\0") if name and (CHECKOUT / name).is_file()]


def tracked_text() -> list[tuple[Path, str]]:
    texts = []
    for path in tracked_files():
        try:
            texts.append((path.relative_to(CHECKOUT), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return texts


def test_the_top_level_is_the_agreed_one() -> None:
    found = {path.relative_to(CHECKOUT).parts[0] for path in tracked_files()}
    assert {name for name in found if not name.startswith(".")} <= TOP_LEVEL


def test_every_python_file_says_what_it_is_for() -> None:
    sources = [(path, text) for path, text in tracked_text() if path.suffix == ".py" and text]
    assert [str(path) for path, text in sources if not ast.get_docstring(ast.parse(text))] == []


def test_no_file_names_the_machine_it_was_written_on() -> None:
    elsewhere = re.compile("|".join([REGISTRIES, *(rf"{re.escape(path)}\b" for path in THIS_MACHINE)]))
    found = [f"{path}: {match[0]}" for path, text in tracked_text() for match in elsewhere.finditer(text)]
    assert found == []


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_every_path_a_document_names_exists(document: str) -> None:
    """Whatever stands in backticks, in a link or in a tour, and starts like a path of ours."""
    path = CHECKOUT / document
    if not path.is_file():
        pytest.skip("not written yet")
    text = path.read_text()
    named = re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:md|toml|txt|py))`", text)
    named += [target for target in re.findall(r"\]\(([^)#\s]+)", text) if ":" not in target]
    named += re.findall(r"^([\w./-]+/[\w./-]*|[\w-]+\.\w+) {2,}\S", text, re.MULTILINE)
    missing = [
        name
        for name in named
        if name.split("/")[0] in (TOP_LEVEL | {".ci", ".."}) - {"results", "reports"}  # those two are made by a run
        if not (CHECKOUT / name).exists() and not (path.parent / name).exists()
    ]
    assert missing == []


def test_requirements_are_pinned() -> None:
    """Everything pyproject.toml asks for has one version that the Makefile installs."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    pinned = {line.partition("==")[0] for line in (CHECKOUT / "constraints.txt").read_text().splitlines()}
    assert {re.split(r"[<>=!~\[ ]", line)[0].lower() for line in asked} - pinned == set()


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment}, cwd="/", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_has_one_top_level_name_and_carries_what_the_checkout_has(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"harness"}
    for folder, pattern in (("workloads", "*.py"), ("experiments", "*.toml")):
        for path in (CHECKOUT / folder).rglob(pattern):
            assert f"harness/{path.relative_to(CHECKOUT)}" in names
    for path in (CHECKOUT / "harness").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(CHECKOUT)) in names


def test_an_installed_wheel_lists_its_workloads_and_experiments(wheel: Path, tmp_path: Path) -> None:
    installed = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path, wheel)
    assert installed.returncode == 0, installed.stderr
    where = run(sys.executable, "-c", "import harness; print(harness.__file__)", PYTHONPATH=str(tmp_path))
    assert where.stdout.startswith(str(tmp_path))
    for kind, pattern in (("workloads", "*.py"), ("experiments", "**/*.toml")):
        listed = run(sys.executable, "-m", "harness", "list", kind, "--json", PYTHONPATH=str(tmp_path))
        assert listed.returncode == 0, listed.stderr
        expected = {path.stem for path in (CHECKOUT / kind).glob(pattern)} - {"claims"}  # the ledger is no experiment
        assert {row["name"] for row in json.loads(listed.stdout)} == expected
