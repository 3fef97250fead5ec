"""Any command line, timed as a whole process from its start to its end: a before/after experiment for other programs.

Its exit code must be 0 each time, also in the warm-up. It runs in the folder given with --data, else where the harness
was started, and what it wrote the last time is kept with the results.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from harness.spec import DataRef, PlainBench, UsageError, Workload
from harness.workloads.data import processes


def prepare(cache: Path, source: Path | None, seed: int, *, command: str) -> DataRef:
    """Check the command line, and say in which folder it runs."""
    folder = source or Path.cwd()
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give one for the command to run in, or leave --data out")
    arguments = processes.split_line(command)
    if not shutil.which(arguments[0]) and not (folder / arguments[0]).is_file():
        raise UsageError(f"command='{command}': there is no program {arguments[0]}; give its path, or install it")
    return DataRef(folder=str(folder.resolve()), digest="", items=0)


def plain(mode: str, seed: int, *, folder: Path, command: str) -> PlainBench:
    """Give one run of the command."""
    run = processes.Command(processes.split_line(command), folder)
    return PlainBench(step=run, items_per_step=1, facts=run.facts)


_PARAMS: dict[str, Any] = {"command": "true"}

WORKLOAD = Workload(
    name="shell",
    summary="any command line, timed as a whole process",
    sources=("https://docs.python.org/3/library/subprocess.html",),
    unit="runs",
    traits=frozenset({"command"}),
    presets={"tiny": _PARAMS, "small": _PARAMS, "full": _PARAMS},
    devices=("cpu",),
    prepare=prepare,
    plain=plain,
)
