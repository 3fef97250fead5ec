"""What the control groups above this process allow it: cores and memory, for versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.machine.reading import read_text


def cpu_quota(root: Path) -> float | None:
    """The tightest CPU quota of the cgroups above this process, in cores; None if there is none."""
    quotas = []
    for folder in cgroup_folders(root, "cpu"):
        if (folder / "cpu.max").exists():
            limit, _, period = (read_text(folder / "cpu.max")[0] or "max").partition(" ")
        else:
            limit = read_text(folder / "cpu.cfs_quota_us")[0] or "max"
            period = read_text(folder / "cpu.cfs_period_us")[0] or "100000"
        if limit not in ("max", "-1"):
            quotas.append(int(limit) / int(period or "100000"))
    return min(quotas, default=None)


def memory_limit(root: Path) -> int | None:
    """The tightest memory limit of the cgroups above this process, in bytes; None if there is none."""
    texts = [
        read_text(folder / name)[0]
        for folder in cgroup_folders(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    limits = [int(text) for text in texts if text and text != "max"]
    return min((limit for limit in limits if limit < 1 << 60), default=None)


def cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's cgroup and of those above it, for versions 1 and 2."""
    for line in (read_text(root / "proc/self/cgroup")[0] or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" or controller in controllers.split(","):
            for mount in (f"sys/fs/cgroup/{controller}", "sys/fs/cgroup") if controllers else ("sys/fs/cgroup",):
                folder = root / mount
                parts = [part for part in path.split("/") if part not in ("", "..")]
                yield from (folder.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))
