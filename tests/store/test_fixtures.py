"""A store of every released version of the schema is read for ever.

The folders under fixtures/ were written by that version and are never written again. `write_fixture` made the one of
the present version, with a compacted part, single trials, a skip, an environment and a spec.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness.record import Fact, Outcome
from harness.store import SCHEMA_VERSION, Store, compact, verify
from tests.store.making import hashes, make_trial, trial_name

FIXTURES = Path(__file__).parent / "fixtures"
SPEC = "s" + "1" * 64


def write_fixture(root: Path) -> None:
    store = Store(root)
    store.write_spec(SPEC, 'question = "Is it faster?"\nworkloads = ["resnet50"]\n')
    facts = [Fact(path="cpu.model", value="A", kind="hardware"), Fact(path="cpu.governor", value=None, state="denied")]
    environment_id = store.write_environment(facts)
    for number in range(6):
        record, windows, samples = make_trial(number)
        if number == 5:
            skip = dataclasses.replace(record, block_index=None, outcome=Outcome.NOT_APPLICABLE, reason="needs 2 GPUs")
            record, windows, samples = skip, [], []
        store.write_trial(dataclasses.replace(record, environment_id=environment_id), windows, samples)
        if number == 2:
            compact(store, at_least=2)
    (root / ".compact.lock").unlink()


def test_the_present_version_has_a_fixture() -> None:
    assert (FIXTURES / SCHEMA_VERSION).is_dir()


@pytest.mark.parametrize("version", sorted(path.name for path in FIXTURES.iterdir()))
def test_a_store_of_a_released_version_is_read(version: str) -> None:
    root = FIXTURES / version
    before = hashes(root)
    store = Store(root)
    records = store.trials()
    assert [record.trial_id for record in records] == [trial_name(number) for number in range(6)]
    assert [record.raw_median_window_ns for record in records] == [1e8 + number for number in range(6)]
    assert [record.outcome for record in records] == [Outcome.OK] * 5 + [Outcome.NOT_APPLICABLE]
    assert [record.arm for record in records] == ["", "amp_bf16"] * 3
    windows = store.windows(record.trial_id for record in records)
    assert windows[trial_name(1)]["host_ns"].tolist() == [100001000, 100001001, 100001002]
    assert store.samples([trial_name(4)])[trial_name(4)]["cpu_busy_ns"].tolist() == [4.0, 5.0]
    assert len(windows) == 5
    (environment_id,) = {record.environment_id for record in records}
    assert [fact.state for fact in store.environment(environment_id)] == ["denied", "ok"]
    assert "Is it faster?" in store.specs()[SPEC]
    assert store.problems == []
    assert verify(root) == []
    assert hashes(root) == before
