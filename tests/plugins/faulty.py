"""A workload without torch that misbehaves as its parameter says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from harness.spec import NotApplicable, PlainBench, Workload

FAULTS = ("none", "exception", "signal", "exit", "hang", "stubborn", "daemon", "memory", "not_applicable")


def plain(mode: str, seed: int, fault: str) -> PlainBench:
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
            case "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
            case "daemon":
                subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            case "memory":
                raise MemoryError
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
