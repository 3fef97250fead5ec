"""The catalogue is what the code has, and says of what it has never seen on its hardware that it has not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.catalogue import catalogue, mark, verified_on
from harness.commands.catalogue_command import reference_devices
from harness.config import Ledger, load_ledger
from harness.record import Outcome, TrialRecord
from harness.registry import load_registry
from harness.spec import Requires
from tests.helpers import TOYS

PAGE = Path(__file__).parents[1] / "docs" / "catalogue.md"


def test_the_committed_page_is_what_the_code_has() -> None:
    made = catalogue(load_registry(), load_ledger(), reference_devices())
    assert PAGE.read_text(encoding="utf-8") == made, "run `.venv/bin/harness catalogue > docs/catalogue.md`"


def test_every_name_has_its_row() -> None:
    page = catalogue(TOYS, Ledger(), {"gpu_only": ("NVIDIA H200",)})
    for name in (*TOYS.treatments, *TOYS.workloads):
        assert f"\n| {name}" in page
    assert "| NVIDIA H200 |" in page


def test_what_needs_a_gpu_is_unverified_until_its_proof_has_held_on_one() -> None:
    gpu_only = replace(TOYS.treatments["alpha"], requires=Requires(devices=("cuda",)))
    assert mark(gpu_only, ()) == "*unverified on hardware*"
    assert mark(gpu_only, ("NVIDIA H200",)) == "NVIDIA H200"
    assert mark(TOYS.treatments["alpha"], ()) == ""


def test_only_a_proof_that_held_counts() -> None:
    held = TrialRecord(device="NVIDIA H200", outcome=Outcome.OK, evidence_json='{"alpha": {"seen": 1}}')
    refused = TrialRecord(device="NVIDIA H200", outcome=Outcome.NOT_APPLIED, evidence_json='{"beta": {"seen": 1}}')
    plain = TrialRecord(device="cpu", outcome=Outcome.OK)
    assert verified_on([held, refused, plain]) == {"alpha": ("NVIDIA H200",)}
