"""A disk that is full, read-only or in two parts: a clear sentence, nothing half-written, nothing earlier touched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.spec import UsageError
from harness.store import Store, compact, verify
from tests.store.making import hashes, make_trial, trial_name


class Mount:
    """A small tmpfs that a test can make read-only. Needs root; with the variable CI set nothing is skipped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, options: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)], capture_output=True, check=False
        )
        if done.returncode != 0:
            if os.environ.get("CI"):
                pytest.fail(f"in CI file systems must be mountable: {done.stderr.decode()}")
            pytest.skip("no file system can be mounted here")

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.folder)], check=True)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    mount = Mount(tmp_path / "mounted")
    yield mount
    subprocess.run(["umount", str(mount.folder)], check=False, capture_output=True)


def fill(folder: Path) -> None:
    """Leave no room for another byte."""
    room = os.statvfs(folder)
    (folder / "filling").write_bytes(bytes(room.f_bavail * room.f_frsize))
    assert os.statvfs(folder).f_bavail == 0


def test_a_full_disk_stops_a_write_and_touches_nothing(mount: Mount) -> None:
    mount.make("size=400k")
    root = mount.folder / "results"
    store = Store(root)
    before: dict[str, str] = {}

    def write_until_full() -> None:
        for number in range(100):
            before.update(hashes(root))
            store.write_trial(*make_trial(number, windows=20, samples=20))

    with pytest.raises(UsageError, match=r"no space left for .*untouched"):
        write_until_full()
    assert before
    after = hashes(root)
    assert after.items() >= before.items()
    assert not [path for path in after if "/." in path], "a temporary file was left behind"
    assert all(finding.kind == "orphan" for finding in verify(root))
    assert len(Store(root).trials()) == sum(path.startswith("trials/") for path in before)


@pytest.mark.parametrize("free_kilobytes", range(4, 60, 4))
def test_a_full_disk_at_any_point_leaves_whole_files_only(mount: Mount, free_kilobytes: int) -> None:
    mount.make("size=200k")
    root = mount.folder / "results"
    store = Store(root)
    store.write_trial(*make_trial(0))
    before = hashes(root)
    fill(mount.folder)
    os.truncate(mount.folder / "filling", (mount.folder / "filling").stat().st_size - free_kilobytes * 1024)
    try:
        store.write_trial(*make_trial(1, windows=50, samples=50))
        stored = 2
    except UsageError:
        stored = 1
    assert hashes(root).items() >= before.items()
    assert len(Store(root).trials()) == stored
    assert all(finding.kind == "orphan" for finding in verify(root))
    (mount.folder / "filling").unlink()
    if stored == 1:
        store.write_trial(*make_trial(1, windows=50, samples=50))
    assert len(Store(root).windows([trial_name(0), trial_name(1)])) == 2


def test_compaction_on_a_full_disk_loses_nothing(mount: Mount) -> None:
    mount.make("size=200k")
    root = mount.folder / "results"
    store = Store(root)
    for number in range(5):
        store.write_trial(*make_trial(number))
    before = hashes(root)
    fill(mount.folder)
    with pytest.raises(UsageError, match="no space left"):
        compact(store, at_least=2)
    assert {path: sha for path, sha in hashes(root).items() if path != ".compact.lock"} == before


def test_a_disk_that_is_nearly_full_is_refused_before_anything_is_measured(mount: Mount) -> None:
    mount.make("size=1m")
    with pytest.raises(UsageError, match=r"only .* MB are left"):
        Store(mount.folder / "results").check_writable()
    fill(mount.folder)
    with pytest.raises(UsageError, match=r"no space left|only .* MB are left"):
        Store(mount.folder / "results").check_writable()


def test_a_read_only_folder_is_refused_and_still_read(mount: Mount) -> None:
    mount.make("size=1m")
    root = mount.folder / "results"
    Store(root).write_trial(*make_trial(0))
    mount.remount("ro")
    store = Store(root)
    with pytest.raises(UsageError, match=r"cannot be written.*give a folder that you may write to"):
        store.check_writable()
    with pytest.raises(UsageError, match="cannot be written"):
        store.write_trial(*make_trial(1))
    assert len(store.trials()) == 1
    assert verify(root) == []


def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere; the read-only mount is tested instead")
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written"):
        Store(tmp_path / "results").check_writable()
    tmp_path.chmod(0o700)


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(UsageError, match="part of the path is a file"):
        Store(tmp_path / "results").check_writable()


def test_folders_may_lie_on_different_devices(mount: Mount, tmp_path: Path) -> None:
    mount.make("size=2m")
    root = tmp_path / "results"
    root.mkdir()
    (root / "trials").symlink_to(mount.folder)
    store = Store(root)
    store.check_writable(needed_bytes=1000)
    for number in range(3):
        store.write_trial(*make_trial(number))
    assert compact(store, at_least=2) == 3
    assert len(Store(root).windows([trial_name(number) for number in range(3)])) == 3
    assert verify(root) == []
