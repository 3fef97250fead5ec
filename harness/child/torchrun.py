"""Starts the ranks of a trial: torchrun, but one that dies with its parent, as its ranks then die with it."""

from __future__ import annotations

import os
import sys

from harness.child import host

if __name__ == "__main__":
    host.die_with_parent()
    os.environ["HARNESS_LAUNCHER_PID"] = str(os.getpid())

    from torch.distributed.run import main

    sys.exit(main())
