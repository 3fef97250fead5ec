"""What is written is what is read, also by readers other than ours and by older or newer versions of ours."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import store as stores
from harness.record import Fact, Outcome, TrialRecord
from harness.spec import UsageError
from harness.store import TRIALS, Store, parquet, verify
from harness.store.schema import TABLES, to_table
from tests.store.making import make_trial, trial_name


def test_a_trial_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    stored = store.write_trial(*make_trial(7))
    read = Store(tmp_path / "results")
    assert read.trials() == [stored]
    assert stored.steps_rows == 3
    assert stored.telemetry_rows == 2
    assert (
        dataclasses.replace(stored, steps_sha256="", steps_rows=0, telemetry_sha256="", telemetry_rows=0)
        == make_trial(7)[0]
    )
    assert type(read.trials()[0].outcome) is Outcome


def test_windows_come_as_arrays_with_nan_where_unknown(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored = store.write_trial(*make_trial(7))
    columns = store.windows([stored.trial_id])[stored.trial_id]
    assert columns["host_ns"].dtype == np.int64
    assert columns["host_ns"].tolist() == [100007000, 100007001, 100007002]
    assert columns["data_wait_ns"].dtype == np.float64
    assert columns["data_wait_ns"].tolist() == [0.0, 1.0, 2.0]
    assert all(math.isnan(value) for value in columns["device_ns"])
    assert "trial_id" not in columns
    assert store.samples([stored.trial_id])[stored.trial_id]["cpu_busy_ns"].tolist() == [7.0, 8.0]


def test_a_skip_is_one_row_without_siblings(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored = store.write_trial(
        dataclasses.replace(make_trial(1)[0], block_index=None, outcome=Outcome.NOT_APPLICABLE), [], []
    )
    assert (stored.steps_sha256, stored.steps_rows) == ("", 0)
    assert store.windows([stored.trial_id]) == {}
    assert store.problems == []
    assert stores.verify(tmp_path) == []


def test_numbers_that_are_not_finite_are_null_and_odd_text_survives(tmp_path: Path) -> None:
    store = Store(tmp_path)
    record, windows, samples = make_trial(1)
    record = dataclasses.replace(
        record, loss_after=math.nan, loss_before=math.inf, stderr_tail="caf\u00e9 \udc80 \x00 \u202e"
    )
    store.write_trial(record, windows, samples)
    (read,) = Store(tmp_path).trials()
    assert read.loss_after is None
    assert read.loss_before is None
    assert read.stderr_tail == "caf\u00e9 ? \x00 \u202e"


def test_the_row_carries_the_sha256_of_the_files_beside_it(tmp_path: Path) -> None:
    import hashlib

    stored = Store(tmp_path).write_trial(*make_trial(1))
    for folder, wanted in (("steps", stored.steps_sha256), ("telemetry", stored.telemetry_sha256)):
        assert hashlib.sha256((tmp_path / folder / f"{stored.trial_id}.parquet").read_bytes()).hexdigest() == wanted


def test_a_stored_trial_is_never_overwritten(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_trial(*make_trial(1))
    with pytest.raises(AssertionError, match="stored already"):
        store.write_trial(*make_trial(1))


def test_pandas_reads_the_folder_with_the_schema(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(3):
        store.write_trial(*make_trial(number))
    frame = pandas.read_parquet(tmp_path / "trials", schema=TRIALS)
    assert list(frame.columns) == [each.name for each in dataclasses.fields(TrialRecord)]
    assert sorted(frame["raw_median_window_ns"]) == [1e8, 1e8 + 1, 1e8 + 2]


def test_trials_are_chosen_by_spec_and_session(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_trial(*make_trial(1, spec_id="s" + "a" * 64))
    store.write_trial(*make_trial(2, spec_id="s" + "b" * 64))
    assert [record.trial_id for record in store.trials("s" + "a" * 64)] == [trial_name(1)]
    assert store.trials(session_id="none") == []


def test_a_file_of_an_older_minor_version_gets_defaults_for_what_it_lacks(tmp_path: Path) -> None:
    table = to_table("trials", [make_trial(1, windows=0, samples=0)[0]]).drop_columns(
        ["attempt", "steal_share", "stderr_tail"]
    )
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / f"{trial_name(1)}.parquet").write_bytes(parquet.encode("trials", table))
    (read,) = Store(tmp_path).trials()
    assert (read.attempt, read.steal_share, read.stderr_tail) == (0, None, "")
    with_now = Store(tmp_path)
    with_now.write_trial(*make_trial(2))
    frame = pandas.read_parquet(tmp_path / "trials", schema=TRIALS)
    assert sorted(frame["attempt"].isna()) == [False, True]


def test_columns_of_a_newer_minor_version_are_ignored_in_reading_and_kept_in_compaction(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_trial(*make_trial(2))
    table = to_table("trials", [make_trial(1, windows=0, samples=0)[0]]).append_column("humidity", pa.array([0.4]))
    newer = parquet.encode("trials", table, {"harness.schema_version": "1.9"})
    (tmp_path / "trials" / f"{trial_name(1)}.parquet").write_bytes(newer)
    assert len(store.trials()) == 2
    assert stores.compact(store, at_least=2) == 2
    (file,) = (tmp_path / "trials").glob("*.parquet")
    merged = pq.read_table(file)
    assert merged.column("humidity").to_pylist() in ([0.4, None], [None, 0.4])
    assert pq.read_metadata(file).metadata[b"harness.schema_version"] == b"1.9"
    assert len(Store(tmp_path).trials()) == 2


def test_environments_are_named_by_their_content_and_stored_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    facts = [Fact(path="b", value="2", unit="GB"), Fact(path="a", value=None, state="denied", kind="hardware")]
    name = store.write_environment(facts)
    assert store.write_environment(reversed(facts)) == name
    assert [path.stem for path in (tmp_path / "environments").iterdir()] == [name]
    assert store.environment(name) == sorted(facts, key=lambda fact: fact.path)
    with pytest.raises(UsageError, match="holds no environment"):
        store.environment("n0")


def test_specs_are_kept_as_first_asked_and_found_by_a_prefix(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = "s" + "a1" * 32, "s" + "a2" * 32
    store.write_spec(first, 'name = "x"')
    store.write_spec(first, 'name = "other budget"')
    store.write_spec(second, "")
    assert store.specs()[first].startswith('name = "x"\n')
    assert store.find_spec(first[:8]) == first
    with pytest.raises(UsageError, match="no experiment"):
        store.find_spec("s12345678")
    with pytest.raises(UsageError, match="no trials yet"):
        store.find_spec("latest")
    store.write_trial(*make_trial(1, spec_id=second))
    assert store.find_spec("latest") == second


def test_every_column_is_described_and_typed() -> None:
    for schema, row_type in TABLES.values():
        assert schema.names == [each.name for each in dataclasses.fields(row_type)]
        assert all(each.metadata[b"about"] for each in schema)
    assert TRIALS.field("raw_median_window_ns").type == pa.float64()
    assert TRIALS.field("outcome").type == pa.string()
    assert TRIALS.field("is_baseline").type == pa.bool_()


def test_files_are_readable_by_others_and_writable_only_by_the_owner(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_trial(*make_trial(1))
    store.write_spec("s1", "")
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
    assert modes <= {0o644, 0o644 & ~0o022}


@pytest.mark.parametrize("value", ["caf\udce9", "\ud83d", "a\0b", "\u202e\n", "", None])
def test_an_odd_fact_is_stored_under_the_name_that_verify_expects(results: Path, value: str | None):
    """A name that is no UTF-8 is a fact like any other."""
    store = Store(results)
    name = store.write_environment([Fact(path="a", value=value, source="x")])
    assert verify(results) == []
    assert store.write_environment(store.environment(name)) == name
