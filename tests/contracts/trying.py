"""Runs a trial of the real engine in a process of its own, with chosen treatments turned into identity twins.

Processes are forked from a server that has imported the libraries already, so that a trial costs little; a treatment
that changes the process itself needs one started afresh, and gets it.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import multiprocessing
import os
import shutil
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from harness.arms import format_arm, full_params, parse_arm, resolve
from harness.launch import LocalExecutor
from harness.machine import describe
from harness.plan import Place, unmet_by_arm
from harness.record import ChildRecord
from harness.registry import Registry, add_plugin_folder, load_registry
from harness.spec import Arm, Cell, Kind, Measure, ProcessChange, Scalar, Source, Treatment, Trial

PRELOADED = (
    "torch",
    "torchvision",
    "transformers",
    "timm",
    "harness.child.torch_side.assemble",
    "harness.child.measure",
)
SHORT = Measure(windows=5, window_ms=1.0, warmup_steps=3, timed_seconds=10.0, extensions=0)
TRIAL_SECONDS = 900.0


@functools.cache
def registry() -> Registry:
    return load_registry()


@functools.cache
def machine() -> Any:
    return describe()


@functools.cache
def other_python() -> str:
    """The interpreter of a second environment that imports what this one does; removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="harness-other-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    venv.create(folder, symlinks=True, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    packages.joinpath("as_in_the_first.pth").write_text("\n".join(path for path in sys.path if path))
    return str(folder / "bin" / "python")


def resolved(arm: str) -> Arm:
    scope = {"cores": machine().cores, "gpus": len(machine().gpus)}
    return resolve(parse_arm(arm), registry().treatments, scope)


def make_trial(
    workload: str,
    arm: str,
    folder: Path,
    *,
    mode: str = "train",
    input: str = "loader",
    prove: str = "",
    threads: int = 1,
    kind: Kind = Kind.PREPARE,
    **params: Scalar,
) -> Trial:
    """A tiny trial of an arm, its data made in and shared through `folder`; `prove`: foreign treatments to try."""
    work = registry().workload(workload)
    values = {**work.presets["tiny"], **params}
    data = work.prepare(folder / "data", None, 0, **values) if work.prepare else None
    own, foreign = resolved(arm), resolved(prove)
    names = dict.fromkeys((*own.names, *foreign.names))
    return Trial(
        trial_id="t",
        spec_id="s",
        session_id="n",
        cell=Cell(
            workload=workload,
            params=values,
            preset="tiny",
            mode=mode,
            input=input,
            data_digest="",
            device="cpu",
            arm=own,
            kind=kind,
            measure=SHORT,
        ),
        cell_id="c",
        is_baseline=not own.uses,
        block_index=0,
        position=0,
        seed=0,
        device_index=None,
        threads=threads,
        rank_count=1,
        data_folder=data.folder if data else "",
        items_in_data=data.items if data else 0,
        work_folder=tempfile.mkdtemp(dir=folder),
        compile_cache=str(folder / "compile"),
        workload_source=registry().sources[f"workload:{workload}"],
        treatment_sources=tuple(registry().sources[f"treatment:{name}"] for name in names),
        also_prove=foreign.uses,
    )


def unmet(trial: Trial) -> str:
    """Why the arm cannot be tried here, in a sentence; empty where it can."""
    cell = trial.cell
    place = Place(cell.workload, cell.params, cell.preset, cell.mode, cell.input, {})
    work = registry().workload(cell.workload)
    return unmet_by_arm(cell.arm, work, place, cell.device, machine(), registry().treatments) or ""


# ------------------------------------------------------------------------------------------------ running


def run(trial: Trial, twins: Iterable[str] = ()) -> ChildRecord:
    """Run the trial; the treatments named in `twins` have every hook replaced by the identity."""
    twins = frozenset(twins)
    hooks = {stage for use in trial.cell.arm.uses for stage in registry().treatments[use.name].hooks}
    if "process" in hooks:
        return run_afresh(trial, twins)
    return _forked(trial, twins)


def _forked(trial: Trial, twins: frozenset[str]) -> ChildRecord:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_in_child, args=(msgspec.json.encode(trial), sorted(twins), sender))
    process.start()
    sender.close()
    try:
        assert receiver.poll(TRIAL_SECONDS), f"{format_arm(trial.cell.arm)} had not ended after {TRIAL_SECONDS:.0f} s"
        return msgspec.json.decode(receiver.recv_bytes(), type=ChildRecord)
    except EOFError:
        process.join()
        raise AssertionError(f"{format_arm(trial.cell.arm)}: the process ended with {process.exitcode}") from None
    finally:
        process.join(30)  # loader workers end with it, but not if it is killed
        process.kill()
        process.join()


def _in_child(encoded: bytes, twins: list[str], sender: Any) -> None:
    """What `harness.child` does, with the twins put in; see its `run`."""
    import traceback

    import torch

    from harness.child.failure import failure
    from harness.child.measure import Proofs, Startup, measure
    from harness.child.plain_side import assemble as assemble_plain
    from harness.child.torch_side.assemble import assemble as assemble_torch

    multiprocessing.set_start_method("fork", force=True)  # Python's default here, which a server's children do not have
    trial = msgspec.json.decode(encoded, type=Trial)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = trial.compile_cache
    torch.set_num_threads(trial.threads)
    startup = Startup(started=time.monotonic_ns())
    try:
        own = [(twin(known(use.name), use.name in twins), use) for use in trial.cell.arm.uses]
        workload = registry().workload(trial.cell.workload)
        assemble = assemble_torch if workload.needs_torch else assemble_plain
        rig = assemble(trial, workload, [treatment for treatment, _ in own])
        try:
            foreign = [(known(use.name), use) for use in trial.also_prove]
            record = measure(trial, rig, Proofs(own, foreign), startup)
        finally:
            rig.close()
    except BaseException as error:
        traceback.print_exc()
        record = failure(error)
    sender.send_bytes(msgspec.json.encode(record, enc_hook=str))


def known(name: str) -> Treatment:
    return registry().treatments[name]


def twin(treatment: Treatment, patched: bool = True) -> Treatment:
    """The treatment with every hook replaced by one that hands its value on."""

    def identity(value: Any, *_: Any, **__: Any) -> Any:
        return value

    return dataclasses.replace(treatment, hooks=dict.fromkeys(treatment.hooks, identity)) if patched else treatment


def run_afresh(trial: Trial, twins: frozenset[str] = frozenset()) -> ChildRecord:
    """A real child; the twin of a treatment comes from a plug-in file of its own."""
    change = ProcessChange()
    sources = {source.name: source for source in trial.treatment_sources}
    folder = Path(trial.work_folder)
    for use in trial.cell.arm.uses:
        treatment = known(use.name)
        if use.name in twins:
            sources[use.name] = _twin_source(sources[use.name], folder)
        elif "process" in treatment.hooks:
            change = treatment.hooks["process"](change, machine(), **full_params(use, treatment))
    trial = dataclasses.replace(
        trial,
        rank_count=change.ranks,
        work_folder=str(folder / "work"),
        treatment_sources=tuple(sources.values()),
    )
    launched = LocalExecutor().run(trial, change, TRIAL_SECONDS)
    if launched.ranks:
        return launched.ranks[0]
    return ChildRecord(outcome=launched.outcome, reason=f"{launched.reason} {launched.stderr_tail}")


def _twin_source(source: Source, folder: Path) -> Source:
    """A plug-in file whose treatment is the identity twin of another."""
    path = folder / f"twin_of_{source.name}_{folder.name}.py"
    path.write_text(
        f"from {source.module} import TREATMENT as ORIGINAL\n"
        "from tests.contracts.trying import twin\n"
        "TREATMENT = twin(ORIGINAL)\n"
    )
    add_plugin_folder(folder)
    return Source(name=source.name, module=f"harness.plugins.{path.stem}", path=str(path), constant="TREATMENT")
