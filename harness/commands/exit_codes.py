"""What the command's exit code says. (`make` turns every failure into 2.)"""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """The exit codes."""

    FINE = 0
    """All fine, skips included."""
    TRIAL_FAILED = 1
    USER_ERROR = 2
    """The user's or the machine's error: unknown name, unwritable folder, disk full."""
    INCONCLUSIVE = 3
    """Only with --strict."""
    CHECK_SAID_NO = 4
    CONTRADICTED = 5
    NOT_COMPARABLE = 6
    INTEGRITY = 7
    HUNG_UP = 129
    """128 and the number of the signal: the terminal closed, Ctrl-C, SIGTERM."""
    INTERRUPTED = 130
    TERMINATED = 143
