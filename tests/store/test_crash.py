"""Killed at any moment of any write: what was stored stays, nothing is half there, and going on gives the same set."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.record import Fact
from harness.store import Store, compact, files, verify
from harness.store import store as store_module
from tests.store.making import content, hashes, in_child, make_trial, trial_name, was_killed

WRITE_POINTS = [name for name in files.FAILPOINTS if not name.startswith("compact.")]
COMPACT_POINTS = [name for name in files.FAILPOINTS if name.startswith("compact.")]


def damaged(root: Path) -> list[str]:
    return [str(finding) for finding in verify(root) if not finding.harmless] if root.exists() else []


@pytest.mark.parametrize(
    "failpoint", [*WRITE_POINTS, "write.half:2", "write.half:3", "write.linked:2", "write.linked:3"]
)
def test_killed_while_a_trial_is_written(tmp_path: Path, failpoint: str) -> None:
    store = Store(tmp_path)
    store.write_trial(*make_trial(0))
    before = hashes(tmp_path)
    assert was_killed(in_child(lambda: store.write_trial(*make_trial(1)), failpoint))
    assert hashes(tmp_path).items() >= before.items(), "an earlier file was touched"
    names = [record.trial_id for record in Store(tmp_path).trials()]
    committed = failpoint in ("write.linked:3", "trial.row")
    assert names == [trial_name(0), trial_name(1)][: 2 if committed else 1]
    assert damaged(tmp_path) == []
    if not committed:  # the same trial can be written again, whatever the dead one left behind
        store.write_trial(*make_trial(1))
    assert len(Store(tmp_path).windows([trial_name(0), trial_name(1)])) == 2
    assert damaged(tmp_path) == []


@pytest.mark.parametrize("failpoint", [*COMPACT_POINTS, "write.half", "write.half:2", "write.half:3", "write.linked:3"])
def test_killed_while_compacting(tmp_path: Path, failpoint: str) -> None:
    store = Store(tmp_path)
    for number in range(3):
        store.write_trial(*make_trial(number))
    wanted = [content(store, trial_name(number)) for number in range(3)]
    assert was_killed(in_child(lambda: compact(Store(tmp_path), at_least=2), failpoint))
    assert [content(Store(tmp_path), trial_name(number)) for number in range(3)] == wanted
    assert damaged(tmp_path) == []
    store.write_trial(*make_trial(3))
    store.write_trial(*make_trial(4))
    compact(Store(tmp_path), at_least=2)
    read = Store(tmp_path)
    assert [record.trial_id for record in read.trials()] == [trial_name(number) for number in range(5)]
    assert [content(read, trial_name(number)) for number in range(3)] == wanted
    assert {finding.kind for finding in verify(tmp_path)} <= {"leftover", "orphan"}
    assert not [stem for stem in (tmp_path / "trials").glob("*.parquet") if not stem.name.startswith("compact-")]


def test_a_listing_that_missed_both_sides_of_a_compaction_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    for number in range(4):
        store.write_trial(*make_trial(number))
    reader = Store(tmp_path)
    list_files = store_module._parquet_files
    listings: list[list[os.DirEntry[str]]] = []

    def incomplete_at_first(folder: Path) -> Iterator[os.DirEntry[str]]:
        listings.append(list(list_files(folder)))
        if len(listings) > 1:
            return iter(listings[-1])
        monkeypatch.undo()
        compact(store, at_least=2)
        monkeypatch.setattr(store_module, "_parquet_files", incomplete_at_first)
        return iter([])

    monkeypatch.setattr(store_module, "_parquet_files", incomplete_at_first)
    assert len(reader.trials()) == 4


def test_a_reader_that_began_before_a_compaction_reads_on(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(4):
        store.write_trial(*make_trial(number))
    reader = Store(tmp_path)
    names = [record.trial_id for record in reader.trials()]
    compact(store, at_least=2)
    assert sorted(reader.windows(names)) == names
    assert reader.problems == []
    assert [record.trial_id for record in reader.trials()] == names


def test_a_disk_that_gives_back_something_else_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    for number in range(3):
        store.write_trial(*make_trial(number))
    before = hashes(tmp_path)
    write = files.write_new
    monkeypatch.setattr(
        files, "write_new", lambda path, data: write(path, data[:20] + bytes([data[20] ^ 1]) + data[21:])
    )
    assert compact(store, at_least=2) == 0
    assert {path: sha for path, sha in hashes(tmp_path).items() if path != ".compact.lock"} == before


def test_a_file_is_synced_before_it_gets_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    link = os.link

    def sync(descriptor: int) -> None:
        done.append("sync " + Path(os.readlink(f"/proc/self/fd/{descriptor}")).name[:9])

    def name(old: Path, new: Path) -> None:
        link(old, new)
        done.append(f"name {new.parent.name}")

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", name)
    Store(tmp_path).write_trial(*make_trial(1))
    file = f"sync .{trial_name(1)[:8]}"
    wanted = [[file, f"name {folder}", f"sync {folder}"] for folder in ("steps", "telemetry", "trials")]
    assert [each for each in done if each != f"sync {tmp_path.name[:9]}"] == [each for part in wanted for each in part]
    assert done.count(f"sync {tmp_path.name[:9]}") == 3, "the new folders' names were not synced"


Step = tuple[str, str | None]

STEPS = st.tuples(
    st.sampled_from(["trial", "trial", "trial", "compact", "environment"]),
    st.none()
    | st.tuples(st.sampled_from(files.FAILPOINTS), st.integers(1, 3)).map(lambda pair: f"{pair[0]}:{pair[1]}"),
)


def run_sequence(root: Path, steps: list[Step]) -> None:
    """Some writes and compactions, each in a process that may be killed; then the same command until all is there."""
    store = Store(root)
    committed: set[str] = set()
    for number, (what, failpoint) in enumerate(steps):
        work = {
            "trial": lambda: store.write_trial(*make_trial(number, windows=number % 3)),  # noqa: B023
            "compact": lambda: compact(Store(root), at_least=2),
            "environment": lambda: store.write_environment([Fact(path="a", value=str(number))]),  # noqa: B023
        }[what]
        killed = False
        if failpoint:
            status = in_child(work, failpoint)
            killed = was_killed(status)
            assert killed or status == 0
        else:
            work()
        there = {record.trial_id for record in Store(root).trials()}
        assert committed <= there, "a stored trial was lost"
        assert killed or what != "trial" or trial_name(number) in there
        committed = there
        assert not killed or damaged(root) == []
    for number, (what, _) in enumerate(steps):
        if what == "trial" and trial_name(number) not in committed:
            store.write_trial(*make_trial(number, windows=number % 3))
    assert damaged(root) == []


def check_sequence(root: Path, steps: list[Step]) -> None:
    root.mkdir()
    run_sequence(root / "killed", steps)
    run_sequence(root / "whole", [(what, None) for what, _ in steps])
    killed, whole = Store(root / "killed"), Store(root / "whole")
    assert killed.trials() == whole.trials()
    for record in whole.trials():
        assert content(killed, record.trial_id) == content(whole, record.trial_id)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=1, max_size=4))
def test_any_sequence_of_faults_ends_in_the_set_of_an_uninterrupted_run(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    check_sequence(tmp_path_factory.mktemp("sequence") / "results", steps)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=1, max_size=10))
def test_any_of_many_sequences_of_faults_ends_in_the_set_of_an_uninterrupted_run(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    check_sequence(tmp_path_factory.mktemp("sequence") / "results", steps)


def write_many(root: Path, writer: int, trials: int, seed: int) -> None:
    """Write a writer's share in processes that are killed at random, and begun again where they were stopped."""
    chance = random.Random(seed + writer)
    store = Store(root)

    def go_on() -> None:
        there = {record.trial_id for record in Store(root).trials()}
        for number in range(writer * trials, (writer + 1) * trials):
            if trial_name(number) not in there:
                store.write_trial(*make_trial(number, windows=2, samples=1))
        compact(Store(root), at_least=trials // 2)

    for _ in range(4):
        point = chance.choice(files.FAILPOINTS)
        in_child(go_on, f"{point}:{chance.randrange(1, trials)}")
    while in_child(go_on) != 0:
        pass


def check_writers(root: Path, writers: int, trials: int) -> None:
    pids = []
    for writer in range(writers):
        pid = os.fork()
        if pid == 0:
            try:
                write_many(root, writer, trials, seed=1)
                os._exit(0)
            finally:
                os._exit(1)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * writers
    read = Store(root)
    names = [record.trial_id for record in read.trials()]
    assert names == [trial_name(number) for number in range(writers * trials)]
    assert len(read.windows(names)) == len(names)
    assert read.problems == []
    assert damaged(root) == []


def test_four_writers_with_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    check_writers(tmp_path, writers=4, trials=20)


@pytest.mark.full
def test_four_writers_of_200_trials_with_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    check_writers(tmp_path, writers=4, trials=200)


def test_folders_are_merged_by_copying(tmp_path: Path) -> None:
    import shutil

    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    for number in range(6):
        (one if number < 4 else two).write_trial(*make_trial(number))
        if number in (2, 3):
            two.write_trial(*make_trial(number))
    compact(one, at_least=2)
    compact(two, at_least=2)
    shutil.copytree(tmp_path / "two", tmp_path / "one", dirs_exist_ok=True)
    merged = Store(tmp_path / "one")
    names = [trial_name(number) for number in range(6)]
    assert [record.trial_id for record in merged.trials()] == names
    assert sorted(merged.windows(names)) == names
    assert [finding.kind for finding in verify(tmp_path / "one")] == ["duplicate"]
    merged.write_trial(*make_trial(6))
    compact(Store(tmp_path / "one"), at_least=2)
    assert [record.trial_id for record in Store(tmp_path / "one").trials()] == [*names, trial_name(6)]


def test_compaction_leaves_small_and_damaged_stores_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert compact(store) == 0
    for number in range(3):
        store.write_trial(*make_trial(number))
    assert compact(store, at_least=4) == 0
    (tmp_path / "steps" / f"{trial_name(1)}.parquet").write_bytes(b"")
    assert compact(store, at_least=2) == 2
    assert [record.trial_id for record in store.trials()] == [trial_name(number) for number in range(3)]
    assert [finding.kind for finding in verify(tmp_path)] == ["empty"]


def test_only_one_process_compacts(tmp_path: Path) -> None:
    import filelock

    store = Store(tmp_path)
    for number in range(3):
        store.write_trial(*make_trial(number))
    with filelock.FileLock(tmp_path / ".compact.lock"):
        assert compact(store, at_least=2) == 0
    assert compact(store, at_least=2) == 3


def test_a_store_is_rewritten_a_logarithmic_number_of_times(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rewritten = 0
    for number in range(64):
        store.write_trial(*make_trial(number, windows=0, samples=0))
        if number % 4 == 3:
            rewritten += compact(store, at_least=2)
    assert rewritten <= 64 * 5
    assert len(list((tmp_path / "trials").glob("*.parquet"))) <= 5
    assert len(store.trials()) == 64


def test_a_clock_set_back_breaks_neither_names_nor_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.identity import ID, new_id

    now = time.time_ns()
    times: Iterator[int] = iter([now, now - 10**15, now - 10**12, 0, now + 1])
    monkeypatch.setattr("harness.identity.time.time_ns", lambda: next(times))
    names = [new_id() for _ in range(5)]
    assert names == sorted(set(names))
    assert all(ID.fullmatch(name) for name in names)


def test_a_file_system_without_hard_links_is_written_by_renaming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    store = Store(tmp_path)
    store.write_trial(*make_trial(1))
    assert damaged(tmp_path) == []
    with pytest.raises(FileExistsError):
        files.write_new(tmp_path / "trials" / f"{trial_name(1)}.parquet", b"")
    assert len(store.trials()) == 1
