"""A treatment whose step hangs, in the way that its parameter says."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from harness.spec import Bench, NoEffect, Param, Proof, Trace, Treatment

DAEMON = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "600"], {})
"""
"""Leaves its session, its parent and its environment."""


def hang(step: Callable[[], Any], bench: Any, how: str) -> Callable[[], Any]:
    def hanging() -> None:
        if how == "daemon":
            subprocess.run([sys.executable, "-c", DAEMON], check=True)
        if how == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)

    return hanging


def refuse(bench: Bench, snapshot: Any, trace: Trace, **params: Any) -> dict[str, Any]:
    raise NoEffect("the step came to an end")


TREATMENT = Treatment(
    name="misbehaves",
    summary="hangs",
    sources=("https://example.org",),
    params={"how": Param("plainly", "plainly, stubborn (ignores SIGTERM) or daemon (leaves one)", kind="str")},
    proof=Proof(after=refuse),
    hooks={"between": hang},
)
