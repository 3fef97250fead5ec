"""Numerics trials of real models: what is sound passes, what forgets half of its work does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from harness.child.torch_side.numerics import follow as follow_arm
from harness.judge import numerics
from harness.record import Outcome
from harness.spec import Arm, Kind, Treatment, Use
from tests.contracts import trying
from tests.plugins import forgets_updates


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("numerics")


def follow(arm: str, folder: Path, mode: str = "train", also: tuple[Treatment, ...] = ()) -> dict[str, Any]:
    trial = trying.make_trial("gpt2_small", arm, folder, mode=mode, kind=Kind.NUMERICS, dropout=0.0)
    known = [trying.known(name) for name in trial.cell.arm.names]
    whole = Arm((*trial.cell.arm.uses, *(Use(treatment.name) for treatment in also)))
    trial = dataclasses.replace(trial, cell=dataclasses.replace(trial.cell, arm=whole))
    return follow_arm(trial, trying.registry().workload("gpt2_small"), [*known, *also])


@pytest.fixture(scope="module")
def plain(folder: Path) -> dict[str, Any]:
    return follow("", folder)


def promise(*names: str) -> Any:
    traits = trying.registry().workload("gpt2_small").traits
    return numerics.weakest([trying.known(name).numerics(traits) for name in names])


def test_the_plain_model_follows_its_double_precision_twin(plain: dict[str, Any]) -> None:
    errors = numerics.relative_errors(plain["values"], plain["reference"]["values"])
    assert len(errors) == 20
    assert 0 < max(errors) < 1e-5
    assert plain["reference"]["dtypes"] == ["float64"]
    losses = [value for (value,) in plain["values"]]
    assert losses[-1] < losses[0], "a model that does not learn says nothing about updates"


@pytest.mark.parametrize("arm", ["amp_bf16", "fused_optimizer", "gradient_accumulation", "zero_grad_fill"])
def test_sound_treatments_pass(arm: str, folder: Path, plain: dict[str, Any]) -> None:
    guard = numerics.check(promise(arm), follow(arm, folder), plain, "cpu")
    assert not guard.wrong


@pytest.mark.parametrize("arm", ["", "amp_bf16"])
def test_an_arm_that_forgets_updates_is_caught_also_in_half_precision(
    arm: str, folder: Path, plain: dict[str, Any]
) -> None:
    guard = numerics.check("close", follow(arm, folder, also=(forgets_updates.TREATMENT,)), plain, "cpu")
    assert "differs from double precision" in guard.wrong


def test_inference_compares_outputs(folder: Path) -> None:
    base, half = follow("", folder, "infer"), follow("amp_bf16", folder, "infer")
    assert base["shape"] == half["shape"] == [8, 32, 1000]
    guard = numerics.check("close", half, base, "cpu")
    assert not guard.wrong
    assert guard.error is not None
    assert 1e-4 < guard.error < 2e-2


def test_a_real_child_writes_it_down(folder: Path) -> None:
    trial = trying.make_trial("gpt2_small", "", folder, kind=Kind.NUMERICS, dropout=0.0)
    record = trying.run_afresh(trial)
    assert record.outcome is Outcome.OK
    assert record.numerics is not None
    assert len(record.numerics["values"]) == 20
