"""A treatment whose loader's worker never gives its first batch: it hangs, or is killed as for want of memory."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from harness.spec import NoEffect, Param, Proof, Treatment


class Stuck:
    """The data set of the workload, until a worker asks it for something."""

    def __init__(self, dataset: Any, how: str) -> None:
        self.dataset = dataset
        self.how = how

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        import torch

        if torch.utils.data.get_worker_info() is not None:
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        return self.dataset[index]


def refuse(bench: Any, snapshot: Any, trace: Any, how: str) -> dict[str, Any]:
    raise NoEffect("a batch came")


TREATMENT = Treatment(
    name="stuck_worker",
    summary="a worker of the loader hangs or dies",
    sources=("https://example.org",),
    params={"how": Param("hangs", "hangs or killed", kind="str")},
    proof=Proof(after=refuse),
    hooks={"data": lambda dataset, bench, how: Stuck(dataset, how)},
)
