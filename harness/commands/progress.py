"""Says what goes on: one line before each trial, redrawn only between trials, since drawing would disturb the child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO

from harness.record import Outcome, TrialRecord


@dataclass
class TerminalProgress:
    """Implements `session.Progress` on a terminal or a log file."""

    stream: TextIO
    finished: int = 0
    _open_line: bool = False

    def note(self, text: str) -> None:
        self.close()
        print(text, file=self.stream, flush=True)

    def start(self, label: str, arm: str, done: int, planned: int, seconds_left: float | None) -> None:
        left = "" if seconds_left is None else f", about {_minutes(seconds_left)} to the earliest verdict"
        line = f"[{done + 1}/{planned}{left}] {label}: {arm}"
        if self.stream.isatty():
            print(f"\r\x1b[2K{line}", end="", file=self.stream, flush=True)
            self._open_line = True
        else:
            print(line, file=self.stream, flush=True)

    def finish(self, record: TrialRecord) -> None:
        self.finished += 1
        if record.outcome is not Outcome.OK:
            self.note(f"{record.workload}: {record.arm or 'baseline'}: {record.outcome}: {record.reason}")

    def close(self) -> None:
        if self._open_line:
            print("\r\x1b[2K", end="", file=self.stream, flush=True)
            self._open_line = False


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
