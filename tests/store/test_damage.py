"""A damaged file of each kind is named, and the rest stays usable."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.record import Fact
from harness.spec import UsageError
from harness.store import Store, compact, parquet, quarantine, verify
from harness.store.schema import to_table
from tests.store.making import hashes, make_trial, trial_name


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def foreign_text(path: Path) -> None:
    path.write_bytes(b"hello, this is no Parquet file at all")


def foreign_parquet(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def newer(path: Path) -> None:
    table = to_table("trials", [make_trial(1)[0]])
    path.write_bytes(parquet.encode("trials", table, {"harness.schema_version": "2.0"}))


def other_trial(path: Path) -> None:
    shutil.copy(path.with_name(f"{trial_name(0)}.parquet"), path)


DAMAGES: list[tuple[Callable[[Path], None], str, str]] = [
    (truncate, "truncated", "cut short"),
    (lambda path: flip(path, 1000), "altered", "seal|cannot be read"),
    (empty, "empty", "empty"),
    (foreign_text, "altered", "replaced: this is no Parquet file"),
    (foreign_parquet, "altered", "replaced: a Parquet file that this harness did not write"),
    (newer, "newer", "schema 2.0; this harness reads 1.x"),
    (other_trial, "altered", "another trial"),
]


@pytest.mark.parametrize(("damage", "kind", "reason"), DAMAGES)
def test_a_damaged_row_file_is_named_and_the_rest_is_usable(
    tmp_path: Path, damage: Callable[[Path], None], kind: str, reason: str
) -> None:
    store = Store(tmp_path)
    for number in range(3):
        store.write_trial(*make_trial(number))
    damage(tmp_path / "trials" / f"{trial_name(1)}.parquet")
    read = Store(tmp_path)
    assert [record.trial_id for record in read.trials()] == [trial_name(0), trial_name(2)]
    assert len(read.windows([trial_name(0), trial_name(1), trial_name(2)])) == 2
    (problem,) = read.problems
    assert (problem.path, problem.kind) == (f"trials/{trial_name(1)}.parquet", kind)
    found = {finding.path: finding for finding in verify(tmp_path)}
    assert found[problem.path].kind == kind
    assert any(word in found[problem.path].reason for word in reason.split("|"))
    assert {found[f"{folder}/{trial_name(1)}.parquet"].kind for folder in ("steps", "telemetry")} == {"orphan"}
    assert len(found) == 3


@pytest.mark.parametrize(("damage", "kind", "reason"), DAMAGES[:5])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_damaged_sibling_costs_only_its_trials(
    tmp_path: Path, damage: Callable[[Path], None], kind: str, reason: str, compacted: bool
) -> None:
    store = Store(tmp_path)
    for number in range(3):
        store.write_trial(*make_trial(number))
    if compacted:
        compact(store, at_least=2)
        store.write_trial(*make_trial(9))
    path = sorted((tmp_path / "steps").glob("compact-*" if compacted else "*"))[0]
    damage(path)
    read = Store(tmp_path)
    windows = read.windows([record.trial_id for record in read.trials()])
    assert len(windows) == (1 if compacted else 2)
    assert [problem.path for problem in read.problems] == [f"steps/{path.name}"]
    (finding,) = verify(tmp_path)
    assert (finding.path, finding.kind) == (f"steps/{path.name}", kind)
    assert any(word in finding.reason for word in reason.split("|"))


def test_a_sibling_that_was_swapped_or_is_gone_is_noticed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(3):
        store.write_trial(*make_trial(number))
    steps = tmp_path / "steps"
    shutil.copy(steps / f"{trial_name(0)}.parquet", steps / f"{trial_name(1)}.parquet")
    (steps / f"{trial_name(2)}.parquet").unlink()
    read = Store(tmp_path)
    assert list(read.windows(record.trial_id for record in read.trials())) == [trial_name(0)]
    assert [problem.kind for problem in read.problems] == ["altered", "missing"]
    assert [finding.kind for finding in verify(tmp_path)] == ["altered", "missing"]


@settings(max_examples=150, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_flipped_bit_goes_unnoticed(tmp_path_factory: pytest.TempPathFactory, share: float, bit: int) -> None:
    content = bytearray(parquet.encode("trials", to_table("trials", [make_trial(1)[0]])))
    content[int(share * len(content))] ^= 1 << bit
    with pytest.raises(parquet.Damaged):
        parquet.decode("trials", bytes(content))


@pytest.mark.parametrize("damage", [foreign_text, foreign_parquet])
@pytest.mark.parametrize("folder", ["trials", "steps", "environments"])
def test_a_file_under_a_name_of_its_own_is_foreign_and_costs_nothing(
    tmp_path: Path, damage: Callable[[Path], None], folder: str
) -> None:
    store = Store(tmp_path)
    store.write_trial(*make_trial(0))
    store.write_environment([Fact(path="a", value="1")])
    damage(tmp_path / folder / "my notes.parquet")
    (finding,) = verify(tmp_path)
    assert (finding.path, finding.kind, finding.harmless) == (f"{folder}/my notes.parquet", "foreign", True)
    assert len(Store(tmp_path).trials()) == 1


def test_an_altered_spec_is_not_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in ("s1", "s2"):
        store.write_spec(name, "name = 'x'")
    (tmp_path / "specs/s1.toml").write_bytes(b"\xff\xfe junk")
    (tmp_path / "specs/s3.toml").mkdir()
    assert list(store.specs()) == ["s2"]
    with pytest.raises(UsageError, match=r"s1\.toml is missing or altered"):
        store.spec("s1")
    assert [(finding.path, finding.kind) for finding in verify(tmp_path)] == [
        ("specs/s1.toml", "altered"),
        ("specs/s3.toml", "foreign"),
    ]


def test_altered_environments_and_specs_are_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    name = store.write_environment([Fact(path="a", value="1")])
    store.write_spec("s1", "name = 'x'")
    assert verify(tmp_path) == []
    spec = tmp_path / "specs/s1.toml"
    spec.write_text(spec.read_text().replace("x", "y"))
    other = parquet.encode("environments", to_table("environments", [Fact(path="a", value="2")]))
    (tmp_path / f"environments/{name}.parquet").write_bytes(other)
    assert [(finding.path, finding.kind) for finding in verify(tmp_path)] == [
        (f"environments/{name}.parquet", "altered"),
        ("specs/s1.toml", "altered"),
    ]


def test_quarantine_moves_what_is_unusable_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(4):
        store.write_trial(*make_trial(number))
    truncate(tmp_path / "trials" / f"{trial_name(1)}.parquet")
    empty(tmp_path / "steps" / f"{trial_name(2)}.parquet")
    (tmp_path / "trials/notes.txt").write_text("mine")
    leftover = tmp_path / "trials/.young.parquet.x.tmp"
    leftover.write_bytes(b"")
    old = tmp_path / "trials/.old.parquet.x.tmp"
    old.write_bytes(b"")
    os.utime(old, (time.time() - 7200,) * 2)
    before = hashes(tmp_path)
    moved = quarantine(tmp_path, verify(tmp_path))
    folders = ("steps", "telemetry", "trials")
    wanted = [f"{folder}/{trial_name(n)}.parquet" for n in (1, 2) for folder in folders]
    assert sorted(moved) == sorted([*wanted, "trials/notes.txt", "trials/.old.parquet.x.tmp"])
    assert all((tmp_path / "quarantine" / path).exists() for path in moved)
    after = hashes(tmp_path)
    assert sorted(after.values()) == sorted(before.values())
    assert [finding.kind for finding in verify(tmp_path)] == ["leftover"]
    assert [record.trial_id for record in Store(tmp_path).trials()] == [trial_name(0), trial_name(3)]
    # measured again under the same name and damaged again: nothing in quarantine is overwritten
    store = Store(tmp_path)
    store.write_trial(*make_trial(1))
    truncate(tmp_path / "trials" / f"{trial_name(1)}.parquet")
    quarantine(tmp_path, verify(tmp_path))
    assert len(list((tmp_path / "quarantine/trials").glob(f"{trial_name(1)}*"))) == 2


def test_a_file_that_the_system_does_not_give_out_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(2):
        store.write_trial(*make_trial(number))
    path = tmp_path / "trials" / f"{trial_name(1)}.parquet"
    path.unlink()
    path.mkdir()  # root may read everything but a folder
    read = Store(tmp_path)
    assert [record.trial_id for record in read.trials()] == [trial_name(0)]
    assert [problem.kind for problem in read.problems] == ["unreadable"]


def test_a_folder_that_is_not_there_is_not_called_whole(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no results folder"):
        verify(tmp_path / "nowhere")


def test_ten_thousand_stale_leftovers_change_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_trial(*make_trial(1))
    for number in range(10_000):
        (tmp_path / "trials" / f".{trial_name(number)}.parquet.{number}.tmp").touch()
    started = time.process_time()
    assert [record.trial_id for record in Store(tmp_path).trials()] == [trial_name(1)]
    store.write_trial(*make_trial(2))
    assert time.process_time() - started < 1
    assert sum(finding.kind == "leftover" for finding in verify(tmp_path)) == 10_000


@pytest.mark.parametrize("wanting", [OSError(errno.EMFILE, "Too many open files"), pa.lib.ArrowMemoryError("no more")])
def test_a_process_that_has_run_out_of_something_calls_no_file_damaged(
    results: Path, monkeypatch: pytest.MonkeyPatch, wanting: Exception
):
    """Its quarantine would move whole files."""
    Store(results).write_trial(*make_trial(0))
    where = (Path, "read_bytes") if isinstance(wanting, OSError) else (pq, "ParquetFile")
    monkeypatch.setattr(*where, lambda *given: (_ for _ in ()).throw(wanting))
    for look in (verify, lambda root: Store(root).trials()):
        with pytest.raises(type(wanting)):
            look(results)


@pytest.mark.parametrize("step", ["read_rows", "read_sibling"])
def test_what_a_compaction_takes_away_meanwhile_is_no_loss(results: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    for number in range(4):
        Store(results).write_trial(*make_trial(number))
    read = verify.__globals__[step]

    def after_a_compaction(*given: Any) -> Any:
        compact(Store(results), at_least=2)
        return read(*given)

    monkeypatch.setitem(verify.__globals__, step, after_a_compaction)
    assert verify(results) == []


def test_a_file_that_the_disk_does_not_give_back_is_named_and_the_rest_is_read(results: Path):
    store = Store(results)
    kept = store.write_trial(*make_trial(0))
    store.write_spec("s" + "1" * 64, "a = 1\n")
    lost = [results / "trials" / f"{trial_name(1)}.parquet", results / "specs" / f"s{'2' * 64}.toml"]
    for path in lost:
        path.symlink_to("/proc/self/mem")  # whose beginning cannot be read: EIO
    assert {(found.path, found.kind) for found in verify(results)} == {
        (str(path.relative_to(results)), "unreadable") for path in lost
    }
    assert Store(results).trials() == [kept]
    assert list(Store(results).specs()) == ["s" + "1" * 64]
