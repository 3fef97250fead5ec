"""Plug-ins that are not what they should be end in one sentence that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.registry import load_registry
from harness.spec import UsageError


@pytest.mark.parametrize(
    ("module", "words"),
    [("no_such_package.plugin", "ModuleNotFoundError"), ("broken_package.plugin", "made to fail")],
)
def test_an_installed_plugin_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, words: str
):
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package/__init__.py").write_text("raise RuntimeError('made to fail')")
    (tmp_path / "theirs-1.0.dist-info").mkdir()
    (tmp_path / "theirs-1.0.dist-info/entry_points.txt").write_text(f"[harness.plugins]\ntheirs = {module}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=words):
        load_registry()


@pytest.mark.parametrize("name", ["two\nlines.py", "UPPER.py", "k" * 250 + ".py", "ünïcode.py", "a-b.py", "1st.py"])
def test_a_plugin_file_whose_name_is_none_is_refused(tmp_path: Path, name: str):
    (tmp_path / name).write_text("")
    with pytest.raises(UsageError, match="is no plug-in name"):
        load_registry([tmp_path])


def test_what_is_there_but_of_another_kind_is_called_so(tmp_path: Path):
    (tmp_path / "file.py").write_text("")
    with pytest.raises(UsageError, match=r"plug-in folder .*file\.py is a file"):
        load_registry([tmp_path / "file.py"])
    with pytest.raises(UsageError, match=r"workload file .* is a folder"):
        load_registry([], [tmp_path])


def test_a_workload_file_without_a_workload_is_told_what_is_missing(tmp_path: Path):
    (tmp_path / "train.py").write_text("WORKLOADS = []\n")
    with pytest.raises(UsageError, match=r"train\.py defines no WORKLOAD; give it one"):
        load_registry([], [tmp_path / "train.py"])
