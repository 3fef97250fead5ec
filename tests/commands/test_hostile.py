"""Names, folders and files as no user should give them, and some do: one clear line, exit code 2, nothing lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.commands.cli import main
from harness.store import Store
from tests.store.making import hashes, make_trial

PLUGINS = Path(__file__).parents[1] / "plugins"
TICKING = """
workloads = ["ticking"]
arms = ["slowdown(percent=60)"]
input = "resident"
preset = "tiny"
device = "cpu"
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.device_lock.runtime_folder", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in argv])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize("variable", ["RESULTS", "REPORTS", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("kind", ["file", "below a file", "dangling link"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], results: Path, monkeypatch: pytest.MonkeyPatch, variable: str, kind: str
):
    Path("short.toml").write_text(TICKING)
    Path("file").write_text("precious")
    Path("link").symlink_to("nowhere/at all")
    given = {"file": "file", "below a file": "file/folder", "dangling link": "link"}[kind]
    monkeypatch.setenv(variable, str(Path.cwd() / given))
    code, out, err = run(capsys, "run", "short.toml", "--plugins", PLUGINS)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert given in err
    assert "give another folder" in err
    assert list(results.iterdir()) == []
    assert Path("file").read_text() == "precious"


@pytest.mark.parametrize("variable", ["RESULTS", "XDG_CACHE_HOME"])
def test_a_path_that_is_no_utf8_is_refused_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], results: Path, monkeypatch: pytest.MonkeyPatch, variable: str
):
    Path("short.toml").write_text(TICKING)
    monkeypatch.setenv(variable, str(Path.cwd() / "caf\udce9"))
    code, out, err = run(capsys, "run", "short.toml", "--plugins", PLUGINS)
    assert (code, out) == (2, "")
    assert "caf\\udce9/" in err.splitlines()[-1]
    assert "has bytes that are no UTF-8" in err.splitlines()[-1]
    assert Store(results).trials() == []


def test_a_name_that_breaks_the_line_or_turns_the_text_is_shown_in_escapes(capsys: pytest.CaptureFixture[str]):
    for argv in (["bench", "res\nnet\u202e\x1b[31m"], ["run", "a\nb\u202e\x1b[31m.toml"], ["li\nst\u202e\x1b[31m"]):
        code, _, err = run(capsys, *argv)
        assert code == 2
        assert err.startswith("error: ")
        assert err.rstrip("\n").isprintable(), err
        assert "\\u202e\\x1b[31m" in err


@pytest.mark.parametrize("stem", ["na\nme\u202e (2)", "x" * 240, " ", "-rf"])
def test_an_experiment_takes_a_plain_name_from_the_file_it_lies_in(capsys: pytest.CaptureFixture[str], stem: str):
    """It is stored with the results and names a report, and has to be read again from there."""
    Path(f"./{stem}.toml").write_text(TICKING)
    code, out, err = run(capsys, "plan", f"./{stem}.toml", "--plugins", PLUGINS, "--json")
    assert code == 0, err
    name = json.loads(out)["experiment"]
    assert name.isprintable()
    assert len(name) <= 100
    assert not set(name) & set(" /\u202e")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("[axes]\nmilliseconds = []", "axis 'milliseconds' has no values"),
        (
            "[axes]\nmillisecond = [1.0]",
            "axis 'millisecond': ticking has no such parameter; did you mean",
        ),
        ("[params]\nmillisecond = 1.0", "parameter 'millisecond': ticking has no such parameter"),
        ("[params]\nmilliseconds = 'x'", "parameter 'milliseconds' is 'x'; it takes a float"),
        ("data = '/nowhere'", "data '/nowhere' is of no use to ticking"),
        ("x = " + "[" * 5000 + "]" * 5000, "is not valid TOML"),
    ],
)
def test_an_experiment_that_asks_for_nothing_that_is_there_is_refused(
    capsys: pytest.CaptureFixture[str], more: str, words: str
):
    Path("short.toml").write_text(TICKING + more)
    code, _, err = run(capsys, "plan", "short.toml", "--plugins", PLUGINS)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_trial_without_time_is_refused(capsys: pytest.CaptureFixture[str], results: Path):
    Path("short.toml").write_text(TICKING)
    code, _, err = run(capsys, "run", "short.toml", "--plugins", PLUGINS, "--trial-timeout", "0s")
    assert (code, err.count("\n")) == (2, 1)
    assert "'0s' is no time to do anything in" in err
    assert list(results.iterdir()) == []


@pytest.fixture
def littered(results: Path) -> Path:
    """Results among what does not belong there."""
    store = Store(results)
    for number in range(3):
        store.write_trial(*make_trial(number))
    for folder in ("trials", "steps", "telemetry", "environments", "specs"):
        (results / folder).mkdir(exist_ok=True)
        (results / folder / "a folder.parquet").mkdir()
        (results / folder / "new\nline\u202e.parquet").write_bytes(b"PAR1garbagePAR1")
        (results / folder / ("y" * 247 + ".parquet")).write_bytes(b"")
        (results / folder / "loop.parquet").symlink_to("loop.parquet")
        (results / folder / "dangling.parquet").symlink_to("nowhere")
        os.mkfifo(results / folder / "pipe.parquet")
        (results / folder / "endless.parquet").symlink_to("/dev/zero")
        (results / folder / "notes.txt").write_text("mine")
        (results / folder / "other.toml").write_bytes(b"\xff\xfe")
    (results / "trials" / "-rf.parquet").write_bytes(b"x")
    (results / "core.1234").write_bytes(b"x" * 1000)
    return results


@pytest.mark.parametrize("argv", [["list", "runs"], ["verify"], ["compact"], ["judge", "latest"], ["report"]])
def test_litter_in_a_results_folder_is_left_alone_and_never_a_traceback(
    capsys: pytest.CaptureFixture[str], littered: Path, argv: list[str]
):
    before = {path: sha for path, sha in hashes(littered).items() if "compact" not in path}
    code, out, err = run(capsys, *argv)
    assert code in (0, 2, 7)
    assert "Traceback" not in err
    if argv == ["list", "runs"]:
        assert "s11111111" in out
    if argv != ["compact"]:
        after = {path: sha for path, sha in hashes(littered).items() if "compact" not in path}
        assert after == before
    assert [record.position for record in Store(littered).trials()] == [0, 1, 2]


@pytest.mark.parametrize("error", [MemoryError(), OSError(24, "Too many open files", "some/file")])
def test_what_a_process_runs_out_of_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, results: Path, error: Exception
):
    Store(results).write_trial(*make_trial(0))
    monkeypatch.setattr(Store, "trials", lambda self, *given: (_ for _ in ()).throw(error))
    code, out, err = run(capsys, "list", "runs")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert ("memory" if isinstance(error, MemoryError) else "some/file: Too many open files") in err
