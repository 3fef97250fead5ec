"""Starts the ranks of a trial: torchrun, but one that dies with its parent, as its ranks then die with it."""

from __future__ import annotations

import os
import sys

from harness.child import host


def main() -> None:
    """Become torchrun; its arguments are those of the process."""
    host.die_with_parent()
    os.environ["HARNESS_LAUNCHER_PID"] = str(os.getpid())
    from torch.distributed import run

    sys.exit(run.main())


if __name__ == "__main__":
    main()
