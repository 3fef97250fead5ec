"""The command line as a user meets it: what it prints, what it refuses and with which exit code."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.commands.cli import main
from harness.metrics import measure
from harness.store import Store
from tests.helpers import OWN_LOCKS

PLUGINS = Path(__file__).parents[1] / "plugins"
QUIET = ("--max-foreign-load", "64", "--max-steal", "1")
"""Tests share the machine with one another; disturbance has its own tests."""


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement going on elsewhere on the machine does not matter to these tests."""
    monkeypatch.setattr("harness.device_lock.runtime_folder", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in argv])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def ticking(results: Path, *more: str) -> list[str]:
    return [
        "bench", "ticking", "--plugins", str(PLUGINS), "--preset", "tiny", "--device", "cpu", "--input", "resident",
        "--results", str(results), "--reports", str(results.parent / "reports"), *QUIET, *more,
    ]  # fmt: skip


def test_the_main_job_without_torch(capsys: pytest.CaptureFixture[str], results: Path):
    code, out, err = run(
        capsys, *ticking(results, "--treatments", "slowdown(percent=60) does_nothing", "--max-blocks", "4")
    )
    assert code == 1, err  # does_nothing failed its proof, and that is not hidden
    assert "SLOWER" in out
    planted = re.search(r"a slowdown of (\d+\.\d+)% was planted", out)  # as the processes say, beside what was found
    assert planted is not None
    assert float(planted[1]) > 55  # a wait turns out longer where other tests keep the machine busy
    assert "no A/A of ticking" in out
    assert "does_nothing: not_applied" in err
    report = Path(out.split("report: ")[1].splitlines()[0])
    page = report.read_text(encoding="utf-8")
    assert "slowdown(percent=60.0)" in page
    assert "not applied" in page
    code, out, _ = run(capsys, "judge", "latest", str(results), "--json")
    rows = {row["arm"]: row for row in json.loads(out)["verdicts"] if row["metric"] == "step_time"}
    slow = rows["slowdown(percent=60.0)"]
    assert code == 0
    assert (slow["verdict"], slow["blocks"], slow["unit"]) == ("slower", 4, "ns")
    assert slow["ci_low"] < slow["speedup"] < slow["ci_high"]
    assert 0.4 < slow["speedup"] < 0.75  # 1 / 1.6, on a machine that other tests keep busy
    assert (rows["does_nothing"]["verdict"], rows["does_nothing"]["before"]) == ("not run", None)


def test_latency_from_an_experiment_file_to_the_report(capsys: pytest.CaptureFixture[str], results: Path):
    file = results.parent / "requests.toml"
    file.write_text(
        "workloads = ['ticking']\npreset = 'tiny'\ndevice = 'cpu'\ninput = 'resident'\nmode = 'infer'\n"
        "arms = ['slowdown(percent=60)']\n"
        "[measure]\nprotocol = 'requests'\nwindows = 250\nextensions = 0\n"
        "[analysis]\nmin_blocks = 2\nmax_blocks = 2\nmax_steal_share = 1.0\nmax_foreign_cpu_share = 64\n"
    )
    folders = (str(results), "--reports", str(results.parent / "reports"), "--plugins", str(PLUGINS))
    code, out, err = run(capsys, "run", str(file), *folders)
    assert code == 0, err
    page = Path(out.split("report: ")[1].splitlines()[0]).read_text(encoding="utf-8")
    for metric in ("latency_p50", "latency_p99"):
        assert metric in out, err
        assert f"slowdown(percent=60.0) ({metric.replace('_', ' ')})" in page
    timed = [record for record in Store(results).trials() if record.steps_rows]
    windows = Store(results).windows([record.trial_id for record in timed])
    assert {count for table in windows.values() for count in table["step_count"]} == {1}
    median: dict[str, float] = {}
    for record in timed:
        requests = windows[record.trial_id]
        p50, p99 = (measure(f"latency_{each}", record, requests) for each in ("p50", "p99"))
        assert p50 is not None
        assert p99 is not None
        assert 2e6 <= p50.value <= p99.value
        median[record.arm] = min(p50.value, median.get(record.arm, p50.value))
    assert median["slowdown(percent=60.0)"] > 1.3 * median[""]


@pytest.mark.parametrize(
    ("protocol", "said"), [("requests", "use mode 'infer'"), ("request", "did you mean 'requests'")]
)
def test_requests_that_cannot_be_are_refused(
    capsys: pytest.CaptureFixture[str], results: Path, protocol: str, said: str
):
    code, _, err = run(capsys, *ticking(results, "--treatments", "slowdown", "--protocol", protocol))
    assert (code, said in err, "Traceback" in err) == (2, True, False), err


def test_a_killed_run_goes_on_where_it_stopped(results: Path):
    argv = ticking(results, "--treatments", "slowdown(percent=60)", "--max-blocks", "4")
    first = subprocess.Popen(
        [sys.executable, "-c", OWN_LOCKS, *argv], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    while len(list((results / "trials").glob("[!.]*.parquet"))) < 6:
        assert first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = {path: path.read_bytes() for path in (results / "trials").glob("[!.]*.parquet")}
    blocks: dict[int | None, int] = {}
    for record in Store(results).trials():
        blocks[record.block_index] = blocks.get(record.block_index, 0) + 1
    complete = {block for block, count in blocks.items() if block is not None and count == 2}
    time.sleep(0.2)
    assert running_children() == []
    again = subprocess.run([sys.executable, "-c", OWN_LOCKS, *argv], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert all(path.read_bytes() == content for path, content in before.items())
    new = [record for record in Store(results).trials() if f"{record.trial_id}.parquet" not in {p.name for p in before}]
    assert not {record.block_index for record in new} & complete
    assert complete
    assert "slowdown(percent=60.0)" in again.stdout


def running_children() -> list[str]:
    """Command lines of trials still running anywhere on the machine that belong to these tests."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "harness.child" in line and "test_a_killed_run" in line]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_cleanly_and_says_how_to_go_on(results: Path, number: signal.Signals, code: int):
    argv = ticking(results, "--treatments", "slowdown(percent=60)")
    process = subprocess.Popen([sys.executable, "-c", OWN_LOCKS, *argv], stderr=subprocess.PIPE, text=True)
    while not list((results / "trials").glob("[!.]*.parquet")):
        assert process.poll() is None
        time.sleep(0.02)
    stopped = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert time.monotonic() - stopped < 5
    assert process.returncode == code
    assert "Run the same command to go on" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["bench", "resnet5"], "no workload named 'resnet5'; did you mean 'resnet50'"),
        (["bench"], "no workload is named"),
        (["bench", "resnet50", "--treatments", "amp_bf61"], "did you mean 'amp_bf16'"),
        (["bench", "resnet50", "--treatments", "amp_bf16("], "not closed"),
        (["bench", "resnet50", "--treatments", "gradient_accumulation(parts=0)"], "at least"),
        (["bench", "resnet50", "--treatments", f"loader_workers(workers={'9' * 5000})"], "is no number"),
        (["bench", "resnet50", "--preset", "huge"], "preset 'huge'"),
        (["bench", "resnet50", "--mode", "trian"], "did you mean 'train'"),
        (["bench", "resnet50", "--device", "tpu"], "device 'tpu'"),
        (["bench", "resnet50", "--device", "cuda"], "no CUDA device"),
        (["bench", "resnet50", "--budget", "soon"], "'soon' is no duration"),
        (["bench", "noop", "--rope", "wide"], "rope 'wide' is no number"),
        (["bench", "noop", "--precision", "90%"], "analysis.precision 0.9 is out of range"),
        (["bench", "noop", "--max-blocks", "0"], "analysis.max_blocks 0 is out of range"),
        (["aa"], "no workload is named"),
        (["aa", "noop", "--comparisons", "200"], "--comparisons 200 is too many for one block"),
        (["bench", "resnet50", "--preset", "tiny", "--data", "/nowhere"], "/nowhere"),
        (["bench", "gpt2_small", "--preset", "tiny", "--treatments", "channels_last"], "nothing is left to run"),
        (["run", "nonsense"], "no experiment 'nonsense'"),
        (["run", "nowhere.toml"], "cannot be read"),
        (["judge", "latest", "nowhere"], "results folder nowhere does not exist"),
        (["report", "--results", "x"], "No such option"),
        (["run", "-w", "train.py:WORKLOAD"], "train.py does not exist; give a file and the Workload in it"),
        (["run", "-w", "train:WORKLOAD"], "your own is given as path/to/train.py:NAME"),
        (["run"], "no workload is named"),
        (["run", "-w", "shell", "--param", "comand=true"], "did you mean 'command'"),
        (["run", "-w", "shell", "--param", "command=3"], "parameter 'command' is 3; it takes a str"),
        (["run", "-w", "shell", "--param", "command"], "--param: 'command' is no parameter; write key=value"),
        (
            ["bench", "noop", "--plugins", "/nowhere", "--treatments", "slowdown"],
            "plug-in folder /nowhere does not exist",
        ),
        (["bnech"], "did you mean 'bench'"),
        (["list", "nonsense"], "'nonsense'"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], results: Path, argv: list[str], message: str
):
    code, _, err = run(capsys, *argv)
    assert code == 2, err
    assert message in err
    assert "Traceback" not in err
    assert list(results.glob("trials/*")) == []


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("workloads = ['noop']\narms = ['slowdown']\nsede = 1", "no key 'sede'; did you mean 'seed'"),
        ("[analysis]\nrop = 1", "[analysis] has no key 'rop'; did you mean 'rope'"),
        ("seed = 'one'", "key 'seed': Expected `int`, got `str`"),
        ("workloads = [", "not valid TOML"),
        ("name = '../../escape'", "is no name"),
    ],
)
def test_an_experiment_file_is_refused_by_file_key_and_value(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, toml: str, message: str
):
    path = tmp_path / "mine.toml"
    path.write_text(toml)
    code, _, err = run(capsys, "plan", path)
    assert code == 2
    assert message in err
    assert "mine.toml" in err


def test_results_that_cannot_be_written_are_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "file").write_text("not a folder")
    code, _, err = run(capsys, *ticking(tmp_path / "file" / "results", "--treatments", "slowdown"))
    assert code == 2
    assert str(tmp_path / "file") in err


@pytest.mark.parametrize("kind", ["workloads", "treatments", "experiments", "metrics", "claims"])
def test_lists_are_objects_with_names(capsys: pytest.CaptureFixture[str], kind: str):
    code, out, _ = run(capsys, "list", kind, "--json")
    rows: list[dict[str, Any]] = json.loads(out)
    assert code == 0
    assert len(rows) >= 2
    assert len({row["name"] for row in rows}) == len(rows)


def test_a_plan_shows_trials_skips_and_minutes(capsys: pytest.CaptureFixture[str], results: Path):
    code, out, _ = run(capsys, "plan", "--workload", "gpt2_small", "--preset", "tiny", "--device", "cpu", "--json")
    plan = json.loads(out)
    assert code == 0
    assert {"workload", "axes", "arm", "reason"} <= set(plan["skips"][0])
    assert {row["arm"] for row in plan["trials"]} >= {"", "amp_bf16"}
    assert plan["minutes"]["most"] > plan["minutes"]["least"] > 0


@pytest.mark.parametrize("argv", [["list", "treatments"], ["plan", "--workload", "resnet50"]])
def test_looking_is_quick_and_loads_neither_torch_nor_pandas(argv: list[str]):
    script = (
        f"import sys\nfrom harness.commands.cli import main\ntry:\n    main({argv!r})\nexcept SystemExit:\n    pass\n"
    )
    script += "print([name for name in ('torch', 'pandas', 'matplotlib', 'pyarrow') if name in sys.modules])"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    )  # of the processor: others may use it too
    assert done.stdout.splitlines()[-1] == "[]"
    assert seconds < 1.5  # quiet: 0.4 s; a loaded machine also costs processor time
