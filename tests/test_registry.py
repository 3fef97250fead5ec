"""Plug-ins that are not what they should be end in one sentence that names them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.identity import code_parts
from harness.registry import load_plugin, load_registry
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
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(UsageError, match=r"folder\.py is a folder; give a file"):
        load_registry([], [f"{tmp_path}/folder.py:WORKLOAD"])
    with pytest.raises(UsageError, match=r"nothing\.py does not exist; give a file and the Workload in it"):
        load_registry([], [f"{tmp_path}/nothing.py:WORKLOAD"])


# ------------------------------------------------------------------------------------------------ PATH.py:NAME

WORKLOAD = """
from harness.spec import PlainBench, Workload

def made(name, **more):
    return Workload(**{"name": name, "summary": "", "unit": "steps", "presets": {"tiny": {"batch": 1}},
                       "plain": lambda mode, seed, **params: PlainBench(lambda: None, 1), **more})

"""


def script(folder: Path, name: str, code: str) -> Path:
    path = folder / name
    path.write_text(WORKLOAD + code)
    return path


def test_a_script_may_hold_several_workloads_under_any_name(tmp_path: Path):
    path = script(tmp_path, "several-runs.py", "small, LARGE = made('small_one'), made('large_one')\n")
    texts = [f"{path}:small", f"{path}:LARGE"]
    registry = load_registry([], [*texts, "noop"])
    assert [registry.workload(text).name for text in (*texts, "noop")] == ["small_one", "large_one", "noop"]
    loaded = [load_plugin(registry.workload_source(name)) for name in ("small_one", "large_one")]
    assert loaded == [registry.workloads["small_one"], registry.workloads["large_one"]]


def test_a_script_may_lie_in_a_plug_in_folder_too(tmp_path: Path):
    path = script(tmp_path, "in_both.py", "WORKLOAD = made('in_both')\n")
    assert load_registry([tmp_path], [f"{path}:WORKLOAD", str(path)]).workload(str(path)).name == "in_both"


def test_a_script_finds_the_modules_beside_it_and_they_are_part_of_its_code(tmp_path: Path):
    """`python train.py` would find them; and an edit of one makes other code, which must not be pooled with the old."""
    (tmp_path / "layers_beside").mkdir()
    (tmp_path / "layers_beside/blocks.py").write_text("WIDTH = 3\n")
    (tmp_path / "sizes_beside.py").write_text("from layers_beside.blocks import WIDTH\n")
    code = "import sizes_beside\nWORKLOAD = made('with_neighbours', unit=f'{sizes_beside.WIDTH}s')\n"
    path = script(tmp_path, "with_neighbours.py", code)
    registry = load_registry([], [str(path)])
    assert registry.workloads["with_neighbours"].unit == "3s"
    parts = code_parts([registry.workload_source("with_neighbours")])
    assert {f"harness.plugins.{name}" for name in ("with_neighbours", "sizes_beside", "layers_beside.blocks")} <= set(
        parts
    )
    (tmp_path / "layers_beside/blocks.py").write_text("WIDTH = 4\n")
    assert code_parts([registry.workload_source("with_neighbours")]) != parts


@pytest.mark.parametrize(
    ("file", "code", "constant", "words"),
    [
        ("lacks_it.py", "WORKLOADS = []\n", "WORKLOAD", r"lacks_it\.py defines no WORKLOAD; give it one: WORKLOAD = "),
        ("lacks_it_2.py", "MINE = made('mine')\n", "WORKLOAD", r"defines no WORKLOAD; it has MINE"),
        ("a_dict.py", "WORKLOAD = {}\n", "WORKLOAD", r"WORKLOAD is a dict; it must be a harness\.spec\.Workload"),
        ("a_dict_2.py", "THIS = {}\n", "THIS", r"THIS is a dict; it must be a harness\.spec\.Workload"),
        ("clash.py", "WORKLOAD = made('resnet50')\n", "WORKLOAD", r"'resnet50' exists already in .*resnet50\.py"),
        ("v1.2.py", "WORKLOAD = made('v12')\n", "WORKLOAD", r"Python cannot import v1\.2\.py; rename it"),
        ("exits.py", "import sys; sys.exit(2)\n", "WORKLOAD", r"SystemExit: 2; put what it does when run"),
        ("misses.py", "import no_such_module\n", "WORKLOAD", r"misses\.py cannot be imported: ModuleNotFoundError"),
        ("no_loss.py", "WORKLOAD = made('a', plain=None, dataset=1, items=1, model=1)\n", "WORKLOAD", "has no loss"),
        ("no_data.py", "WORKLOAD = made('a', plain=None)\n", "WORKLOAD", "has no dataset, which every mode needs"),
        ("modes.py", "WORKLOAD = made('a', modes=('eval',))\n", "WORKLOAD", "has the modes eval; they are"),
        (
            "no_batch.py", "WORKLOAD = made('a', plain=None, dataset=1, items=1, presets={'tiny': {}})\n",
            "WORKLOAD", "has no batch in its preset tiny",
        ),
    ],
)  # fmt: skip
def test_a_script_that_is_no_workload_is_told_what_to_do(
    tmp_path: Path, file: str, code: str, constant: str, words: str
):
    path = script(tmp_path, file, code)
    with pytest.raises(UsageError, match=words):
        load_registry([], [f"{path}:{constant}"])


def test_an_installed_package_may_bring_a_workload_and_a_treatment(tmp_path: Path):
    """As pip leaves it: a module and a dist-info folder on the path, seen by a command of its own process."""
    script(tmp_path, "their_workload.py", "WORKLOAD = made('their_workload')\n")
    treatment = (Path(__file__).parent / "plugins/does_nothing.py").read_text()
    (tmp_path / "their_treatment.py").write_text(treatment.replace('"does_nothing"', '"their_treatment"'))
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[harness.plugins]\nw = their_workload\nt = their_treatment\n")
    done = subprocess.run(
        [sys.executable, "-m", "harness", "plan", "-w", "their_workload", "--treatments", "their_treatment",
         "--preset", "tiny", "--device", "cpu", "--json"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[1]}"},
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {trial["arm"] for trial in json.loads(done.stdout)["trials"]} == {"", "their_treatment"}
