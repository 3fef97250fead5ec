"""Status is derived from rows: planned, done, failed, skipped, superseded, each with its reason."""

from __future__ import annotations

from typing import Any

from harness.record import Fact, Outcome, TrialRecord
from harness.status import CellStatus, PlannedCell, Present, derive_status, no_longer_planned, superseded_by

CELL = PlannedCell(workload="resnet50", params_json="{}", arm="amp_bf16", code_id="k2")
OLD = [
    Fact(path="package.torch", value="2.14.1", kind="identity"),
    Fact(path="code.harness.treatments.amp_bf16", value="1"),
    Fact(path="cpu.governor", value="powersave"),
]
NOW = [
    Fact(path="package.torch", value="2.15.0", kind="identity"),
    Fact(path="code.harness.treatments.amp_bf16", value="2"),
    Fact(path="cpu.governor", value="performance"),
]
PRESENT = Present(base_env_id="e2", hardware_id="h1", facts=NOW)


def row(number: int, **values: Any) -> TrialRecord:
    plain: dict[str, Any] = {
        "workload": "resnet50", "arm": "amp_bf16", "code_id": "k2", "base_env_id": "e2", "hardware_id": "h1",
        "environment_id": "n-now", "session_id": "s", "block_index": number,
    }  # fmt: skip
    return TrialRecord(trial_id=f"{number:08d}", **{**plain, **values})


def status(*records: TrialRecord) -> CellStatus:
    (found,) = derive_status([CELL], records, PRESENT, lambda name: OLD if name == "n-old" else NOW)
    return found


def test_nothing_measured_is_planned() -> None:
    assert (status().state, status().timed, status().reasons) == ("planned", 0, ())
    assert status(row(0, arm="")).state == "planned"
    assert status(row(0, params_json='{"batch":8}')).state == "planned"


def test_timed_trials_of_the_present_work_are_done() -> None:
    found = status(row(0), row(1), row(1, session_id="t"), row(2, block_index=None, kind="prepare"))
    assert (found.state, found.timed, found.blocks, found.superseded) == ("done", 3, 3, 0)


def test_a_failure_counts_until_a_later_trial_went_well() -> None:
    crashed = row(1, outcome=Outcome.CRASHED, reason="died by signal 11")
    assert status(row(0), crashed).state == "failed"
    assert status(row(0), crashed).reasons == ("died by signal 11",)
    again = status(row(0), crashed, row(2))
    assert (again.state, again.failed) == ("done", 1)


def test_disturbed_and_unsteady_trials_are_counted_and_explained() -> None:
    disturbed = row(0, outcome=Outcome.DISTURBED, reason="other processes used 0.50 cores")
    found = status(disturbed, row(1, outcome=Outcome.NOT_STEADY))
    assert (found.state, found.discarded, found.timed, found.failed) == ("discarded", 2, 0, 0)
    assert status(disturbed).reasons == ("other processes used 0.50 cores",)
    assert (status(disturbed, row(1)).state, status(disturbed, row(1)).discarded) == ("done", 1)


def test_simulated_trials_are_no_measurement_and_supersede_nothing() -> None:
    made_up = row(0, facts_json='{"simulated": true}', code_id="k-simulated", params_json="{}")
    found = status(made_up)
    assert (found.state, found.simulated, found.superseded, found.timed) == ("simulated", 1, 0, 0)
    assert (status(made_up, row(1)).state, status(made_up, row(1)).simulated) == ("done", 1)
    assert no_longer_planned([CELL], [made_up, row(1), row(2, params_json='{"batch":8}'), row(3, arm="gone")]) == 2


def test_a_skip_has_its_reason() -> None:
    found = status(row(0, outcome=Outcome.NOT_APPLICABLE, block_index=None, reason="needs 2 CUDA devices"))
    assert (found.state, found.reasons) == ("skipped", ("needs 2 CUDA devices",))


def test_what_was_superseded_says_by_what() -> None:
    found = status(row(0, base_env_id="e1", environment_id="n-old", code_id="k1"))
    assert (found.state, found.timed, found.superseded) == ("superseded", 0, 1)
    assert found.reasons == ("torch 2.14.1 -> 2.15.0", "harness.treatments.amp_bf16 changed")
    mixed = status(row(0, hardware_id="h0"), row(1))
    assert (mixed.state, mixed.superseded) == ("done", 1)


def test_many_changes_are_counted_and_none_is_said_in_words() -> None:
    many = [Fact(path=f"package.p{i}", value="1", kind="identity") for i in range(5)]
    old = row(0, base_env_id="e1")
    present = Present(base_env_id="e2", hardware_id="h1", facts=[])
    assert superseded_by(old, present, lambda name: many)[-1] == "and 2 more"
    assert superseded_by(old, PRESENT, lambda name: NOW) == ["code changed that the stored facts do not name"]


def test_files_that_came_or_went_are_named() -> None:
    present = Present(base_env_id="e2", hardware_id="h1", facts=[Fact(path="code.harness.steady", value="1")])
    before = [Fact(path="code.harness.old", value="1")]
    assert superseded_by(row(0), present, lambda name: before) == ["harness.old is gone", "harness.steady is new"]
