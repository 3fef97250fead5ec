"""Runs one trial: `python -m harness.child trial.json`. Start here when a trial misbehaves; it can be re-run by hand.

Reads the trial, sets it up, measures, proves, and writes `record.rank<k>.json` beside it. Output goes wherever the
parent pointed it; every failure becomes a typed record.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

import msgspec

from harness.child import host
from harness.child.failure import failure
from harness.child.measure import Proofs, Startup, measure
from harness.record import ChildRecord, Outcome
from harness.registry import load_plugin
from harness.spec import Kind, Phase, Treatment, Trial, Use, Workload


def main(path: str) -> int:
    """Run the trial of one file; the outcome is in the record.

    The exit code says that one was written. Only one of several ranks says that it failed: then torchrun ends the
    others, which would wait for it.
    """
    host.die_with_parent()
    startup = Startup(started=host.started_ns())
    trial = read_trial(Path(path))
    failed = False
    try:
        record = run(trial, startup)
    except BaseException as error:
        failed = True
        record = failure(error)
        traceback.print_exc()
    write_record(Path(trial.work_folder), record)
    host.enter_phase(trial, Phase.EXIT)
    return int(failed and trial.rank_count > 1)


def read_trial(path: Path) -> Trial:
    """The trial to run; a damaged or hand-edited file is refused with the key that is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Trial)
    except (OSError, msgspec.DecodeError) as error:
        sys.exit(f"{path}: {error}")


def run(trial: Trial, startup: Startup) -> ChildRecord:
    """Import, assemble, measure and prove."""
    workload = load_plugin(trial.workload_source)
    assert isinstance(workload, Workload)
    by_name = {source.name: source for source in trial.treatment_sources}

    def with_code(uses: tuple[Use, ...]) -> list[tuple[Treatment, Use]]:
        pairs = []
        for use in uses:
            treatment = load_plugin(by_name[use.name])
            assert isinstance(treatment, Treatment)
            pairs.append((treatment, use))
        return pairs

    own = with_code(trial.cell.arm.uses)
    if workload.needs_torch:
        from harness.child.torch_side.assemble import assemble, import_workload
    else:
        from harness.child.plain_side import assemble, import_workload
    import_workload(workload)
    if trial.cell.kind is Kind.NUMERICS:
        from harness.child.torch_side.numerics import follow

        host.enter_phase(trial, Phase.PROOF)
        return ChildRecord(outcome=Outcome.OK, numerics=follow(trial, workload, [treatment for treatment, _ in own]))
    startup.imported = time.monotonic_ns()
    host.enter_phase(trial, Phase.BUILD)
    startup.peak_is_reset = host.reset_peak_rss()
    rig = assemble(trial, workload, [treatment for treatment, _ in own])
    startup.built = time.monotonic_ns()
    try:
        return measure(trial, rig, Proofs(own, with_code(trial.also_prove)), startup)
    finally:
        rig.close()


def write_record(folder: Path, record: ChildRecord) -> None:
    """Write to a temporary name and rename, so that the parent never sees half a record."""
    rank = int(os.environ.get("RANK", "0"))
    record = replace(record, rank=rank, written_monotonic_ns=time.monotonic_ns())
    temporary = folder / f".record.rank{rank}.json"
    temporary.write_bytes(msgspec.json.encode(record, enc_hook=str))
    temporary.rename(folder / f"record.rank{rank}.json")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
