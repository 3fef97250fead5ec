"""What a trial costs before it is warm, against a bare script with the same imports, data, model and first steps.

Both are fresh processes in the same environment, alternating, the order random in each pair. The limit is 1.1 times.
Run: `python benchmarks/fixed_cost.py [--workload resnet50] [--preset small] [--pairs 9]`; exit code 4 beyond the limit.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from harness.child.measure import PREPARE_STEPS
from harness.identity import new_id
from harness.launch import LocalExecutor, child_environment
from harness.plan import resolved_measure
from harness.registry import Registry, load_registry
from harness.spec import Arm, Cell, DataRef, Kind, Measure, ProcessChange, Trial

LIMIT = 1.1
BARE = Path(__file__).with_name("bare.py")


def main() -> int:
    """Print the medians of both, and the median of the pairs' ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="resnet50")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trial = first_steps(load_registry(), asked.workload, asked.preset, asked.threads, Path(folder))
        pairs = [one_pair(trial) for _ in range(asked.pairs + 1)][1:]  # the first pair warms the file cache
    ratio = median(ours / bare for bare, ours in pairs)
    print(f"bare script {median(bare for bare, _ in pairs) / 1e9:7.3f} s to the end of step {1 + PREPARE_STEPS}")
    print(f"trial       {median(ours for _, ours in pairs) / 1e9:7.3f} s, warm and put back to its start")
    print(f"ratio       {ratio:7.3f} (median of {asked.pairs} pairs); at most {LIMIT} is allowed")
    print("pairs       " + " ".join(f"{ours / bare:.3f}" for bare, ours in pairs))
    return 0 if ratio <= LIMIT else 4


def first_steps(registry: Registry, workload: str, preset: str, threads: int, folder: Path) -> Trial:
    """A trial of plain PyTorch that ends after its warm-up."""
    found = registry.workload(workload)
    params = found.presets[preset]
    data = found.prepare(cache=folder, source=None, seed=0, **params) if found.prepare else DataRef("", "", 0)
    cell = Cell(
        workload=workload,
        params=params,
        preset=preset,
        mode="train",
        input="loader",
        data_digest=data.digest,
        device="cpu",
        arm=Arm(),
        kind=Kind.PREPARE,
        measure=resolved_measure(Measure(), "cpu"),
    )
    return Trial(
        trial_id="",
        spec_id="",
        session_id="",
        cell=cell,
        cell_id="",
        is_baseline=True,
        block_index=None,
        position=None,
        seed=0,
        device_index=None,
        threads=threads,
        rank_count=1,
        data_folder=data.folder,
        items_in_data=data.items,
        work_folder=str(folder),
        compile_cache=str(folder / "compile"),
        workload_source=registry.workload_source(workload),
        treatment_sources=(),
    )


def one_pair(trial: Trial) -> tuple[int, int]:
    """Run both once, in random order; nanoseconds from process start to warm: (bare, trial)."""
    times = {run: run(trial) for run in random.sample([bare_ns, trial_ns], k=2)}
    return times[bare_ns], times[trial_ns]


def trial_ns(trial: Trial) -> int:
    """The harness's child."""
    work = Path(trial.work_folder) / new_id()
    launched = LocalExecutor().run(replace(trial, work_folder=str(work)), ProcessChange(), timeout_s=600)
    if not launched.ranks or launched.ranks[0].startup_total_ns is None:
        sys.exit(f"the trial failed: {launched.reason}\n{launched.stderr_tail}")
    return launched.ranks[0].startup_total_ns


def bare_ns(trial: Trial) -> int:
    """The same work without the harness."""
    arguments = Path(trial.work_folder) / "arguments.json"
    started = time.monotonic_ns()
    arguments.write_text(
        json.dumps(
            {
                "module": trial.workload_source.module,
                "params": dict(trial.cell.params),
                "mode": trial.cell.mode,
                "seed": trial.seed,
                "data_folder": trial.data_folder,
                "steps": 1 + PREPARE_STEPS,
                "started_ns": started,
            }
        )
    )
    command = [sys.executable, str(BARE), str(arguments)]
    environment = child_environment(trial, ProcessChange(), {})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the bare script failed:\n{done.stderr}")
    return int(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
