"""What a child can read of its own process on the host, from /proc, without torch."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from harness.spec import Phase, Trial

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, and go at once if who launched it is dead already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    launcher = os.environ.get("HARNESS_LAUNCHER_PID")
    if launcher and not Path(f"/proc/{launcher}").exists():
        sys.exit("the process that launched this one is gone")


def enter_phase(trial: Trial, phase: Phase) -> None:
    """Tell the parent, which knows how long each phase may take, where this process is."""
    Path(trial.work_folder, f"phase.rank{os.environ.get('RANK', '0')}").write_text(phase)


def started_ns() -> int:
    """When this process was started, on the monotonic clock: as the parent noted it, else as the kernel did."""
    noted = os.environ.get("HARNESS_STARTED_NS")
    if noted:
        return int(noted)
    with open("/proc/self/stat", encoding="utf-8") as stat:
        ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    since_boot = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return since_boot + time.monotonic_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def reset_peak_rss() -> bool:
    """Start a new peak of resident memory; False where the kernel refuses, and the peak stays unknown."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


def peak_rss_bytes() -> int | None:
    """Peak resident memory since `reset_peak_rss`."""
    with open("/proc/self/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def tree_cpu_ns() -> int:
    """CPU time used so far by this process and its living children, user and system."""
    import psutil

    me = psutil.Process()
    seconds = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system + (times.children_user + times.children_system if process is me else 0.0)
    return int(seconds * 1e9)


def processes() -> list[Any]:
    """psutil processes below this one."""
    import psutil

    return psutil.Process().children(recursive=True)


def mapped_libraries() -> list[str]:
    """Paths of the shared objects mapped into this process, each once."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6}
    return sorted(path for path in paths if ".so" in path)
