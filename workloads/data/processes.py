"""What the workloads that run other programs share: run one to its end, demand that it succeeds, keep its output."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.spec import UsageError

OUTPUT_BYTES = 2000
TIMEOUT_S = 3600


class CommandFailed(RuntimeError):
    """The program could not be started, or its exit code is not 0; the message ends with its last words."""


def split_line(line: str) -> list[str]:
    """The program and its arguments; `UsageError` where that is no command line."""
    try:
        arguments = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"'{line}' is no command line: {error}; check its quotes") from error
    if not arguments:
        raise UsageError("'' is no command line; give one, --param 'command=python3 -c pass' for instance")
    return arguments


@dataclass
class Command:
    """One command line, run as often as it is called. No shell reads it: `sh -c "a | b"` asks for one."""

    arguments: Sequence[str]
    folder: Path
    runs: int = 0
    output: bytes = b""
    """What the latest run wrote to its output and error streams."""

    def __call__(self) -> None:
        try:
            done = subprocess.run(
                self.arguments, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CommandFailed(f"{self.arguments[0]}: {error}") from error
        self.runs += 1
        self.output = done.stdout
        if done.returncode:
            raise CommandFailed(f"{self.arguments[0]} ended with exit code {done.returncode}: {self._tail()}")

    def _tail(self) -> str:
        return self.output[-OUTPUT_BYTES:].decode(errors="replace")

    def facts(self) -> dict[str, Any]:
        """What was run, how often, and the end of what it wrote the last time."""
        return {"command": list(self.arguments), "kept.runs": self.runs, "kept.output": self._tail()}


def wait_until(ready: Any, seconds: float, what: str) -> None:
    """Ask every 20 ms until it is so; `CommandFailed` where it is not in time."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise CommandFailed(f"{what} within {seconds:g} s")
        time.sleep(0.02)
