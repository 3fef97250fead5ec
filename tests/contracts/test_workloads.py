"""What every workload owes, tried on the real engine: it says what it is, runs in its modes, and follows its seed."""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path

import pytest

from harness.machine import Machine
from harness.plan import PRESETS, Place, unmet_by_arm
from harness.record import ChildRecord, Outcome
from harness.spec import Arm, Workload
from tests.contracts import trying

WORKLOADS = trying.registry().workloads
MODES = [(name, mode) for name, workload in WORKLOADS.items() for mode in workload.modes]
SAMPLE = ("gpt2_small", "train")
"""The quickest that has everything: a model, data, and a loss."""
ONE_A_BATCH_ELEMENT = ("images", "rows")
"""Units of which a batch of so many has exactly so many; of tokens it depends on the text."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data that the trials of a run share."""
    return tmp_path_factory.mktemp("workloads")


# ------------------------------------------------------------------------------------------------ what can be read


@pytest.mark.parametrize("name", WORKLOADS)
def test_is_described(name: str) -> None:
    workload, source = WORKLOADS[name], trying.registry().workload_source(name)
    assert Path(source.path).stem == name
    assert workload.summary
    assert not workload.summary.endswith(".")
    assert all(url.startswith("https://") for url in workload.sources)
    assert workload.sources or name == "noop"  # which does nothing that anybody could have described
    assert workload.unit
    assert set(workload.presets) == set(PRESETS)
    assert set(workload.modes) <= {"train", "infer"}
    assert set(workload.inputs) <= {"loader", "resident"}
    assert set(workload.devices) <= {"cpu", "cuda"}
    assert sys.modules[source.module].__doc__


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_missing_package_is_named(name: str) -> None:
    workload = WORKLOADS[name]
    needed = ("torch", *workload.packages) if workload.needs_torch else workload.packages
    for package in needed:
        others = {other: version for other, version in trying.machine().packages.items() if other != package}
        assert package in reason_not_to_run(workload, dataclasses.replace(trying.machine(), packages=others))


def reason_not_to_run(workload: Workload, machine: Machine) -> str:
    place = Place(workload.name, dict(workload.presets["tiny"]), "tiny", workload.modes[0], workload.inputs[0], {})
    return unmet_by_arm(Arm(), workload, place, workload.devices[0], machine, {}) or ""


# ------------------------------------------------------------------------------------------------ what shows in a run


def test_the_sample_steps_and_follows_its_seed(folder: Path) -> None:
    check_steps(*SAMPLE, folder)
    check_seed(*SAMPLE, folder)


@pytest.mark.full
@pytest.mark.parametrize(("name", "mode"), MODES)
def test_steps_in_every_mode(name: str, mode: str, folder: Path) -> None:
    check_steps(name, mode, folder)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name, mode in MODES if mode == "train" and WORKLOADS[name].loss])
def test_equal_seeds_give_equal_losses(name: str, folder: Path) -> None:
    check_seed(name, "train", folder)


@functools.cache
def record_of(name: str, mode: str, folder: Path, seed: int = 0) -> ChildRecord:
    """One tiny trial of the plain workload; skips what this machine cannot run, with the plan's sentence."""
    if reason := reason_not_to_run(WORKLOADS[name], trying.machine()):
        pytest.skip(reason)
    inputs = WORKLOADS[name].inputs
    trial = trying.make_trial(name, "", folder, mode=mode, input="loader" if "loader" in inputs else inputs[0])
    return trying.run(dataclasses.replace(trial, seed=seed))


def check_steps(name: str, mode: str, folder: Path) -> None:
    record = record_of(name, mode, folder)
    assert record.outcome in (Outcome.OK, Outcome.NOT_STEADY), record.reason
    assert record.items_per_step
    assert record.items_per_step > 0
    if WORKLOADS[name].unit in ONE_A_BATCH_ELEMENT:
        assert record.items_per_step == WORKLOADS[name].presets["tiny"]["batch"]


def check_seed(name: str, mode: str, folder: Path) -> None:
    first = record_of(name, mode, folder).loss_before
    record_of.cache_clear()
    assert first is not None
    assert record_of(name, mode, folder).loss_before == first
    assert record_of(name, mode, folder, seed=1).loss_before != first
