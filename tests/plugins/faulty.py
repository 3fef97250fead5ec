"""A workload without torch that misbehaves as its parameter says."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness.spec import NotApplicable, PlainBench, Workload

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "600"], {})
"""


def plain(mode: str, seed: int, fault: str) -> PlainBench:
    if fault == "hang_in_build":
        time.sleep(600)

    def step() -> None:
        match fault:
            case "exception":
                raise ValueError("made to fail")
            case "signal":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "exit":
                os._exit(7)
            case "hang":
                time.sleep(600)
            case "hang_at_exit":
                threading.Thread(target=time.sleep, args=(600,)).start()
                raise ValueError("made to fail")
            case "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
            case "daemon":
                subprocess.run([sys.executable, "-c", DAEMON], check=True)
            case "memory":
                used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2)
                bytearray(256 << 20)
            case "much_memory":
                bytearray(b"x") * (1 << 30)
            case "not_applicable":
                raise NotApplicable("made not to apply")
        time.sleep(0.002)

    return PlainBench(step, 1)


WORKLOAD = Workload(
    name="faulty",
    summary="misbehaves as its parameter says",
    sources=(),
    unit="steps",
    traits=frozenset(),
    presets={"tiny": {"fault": "none"}},
    inputs=("loader", "resident"),
    plain=plain,
)
