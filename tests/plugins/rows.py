"""A small net on made-up rows, for tests that need a training step which costs nothing."""

from __future__ import annotations

from typing import Any

from harness.spec import Workload

ITEMS, WIDTH = 64, 32


def dataset(folder: Any, mode: str, seed: int, on_bad_item: str, **params: Any) -> Any:
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.utils.data.TensorDataset(torch.randn(ITEMS, WIDTH, generator=generator), torch.arange(ITEMS))


def model(mode: str, fault: str, **params: Any) -> Any:
    """The fault, if any, happens on the last rank in its third step."""
    import torch

    class Net(torch.nn.Sequential):
        steps = 0

        def forward(self, rows: Any) -> Any:
            self.steps += 1
            if fault != "none" and self.steps == 3:
                fail(fault)
            return super().forward(rows)

    layers = [torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)]
    return Net(*layers)


def fail(fault: str) -> None:
    import os
    import signal

    if os.environ.get("RANK") == "1":
        if fault == "exception":
            raise ValueError("made to fail on one rank")
        os.kill(os.getpid(), signal.SIGKILL)


def loss(net: Any, batch: Any) -> Any:
    rows, _ = batch
    return (net(rows) - rows).square().mean()


def optimizer() -> Any:
    import torch

    return torch.optim.Adam, {"lr": 1e-3}


WORKLOAD = Workload(
    name="rows",
    summary="a small net on rows of numbers",
    sources=(),
    unit="rows",
    traits=frozenset(),
    presets={"tiny": {"batch": 4, "fault": "none"}},
    modes=("train",),
    dataset=dataset,
    model=model,
    loss=loss,
    optimizer=optimizer,
    items=lambda batch: len(batch[0]),
    blocks=lambda net: [net[0], net[2]],
)
