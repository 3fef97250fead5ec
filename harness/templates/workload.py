"""What NAME does in a step, and why its speed matters: say it here.

As it stands, a small perceptron learns to tell the sign of a sum. The functions run in the process of each trial; what
they need they import themselves, so that listing workloads stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.spec import Workload


def dataset(folder: Path, mode: str, seed: int, *, items: int, **others: Any) -> Any:
    """Give a map-style dataset. The parameters after the star are those of `presets`."""
    import torch

    numbers = torch.randn(items, 64, generator=torch.Generator().manual_seed(seed))
    return torch.utils.data.TensorDataset(numbers, (numbers.sum(1) > 0).long())


def model(mode: str, *, width: int, **others: Any) -> Any:
    """Give the model on the CPU, in its usual precision; weights are random, under a seed set before."""
    from torch import nn

    return nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2))


def loss(model: Any, batch: Any) -> Any:
    """Compute the loss of a training step; the harness does backward and optimizer step."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(model(batch[0]), batch[1])


def predict(model: Any, batch: Any) -> Any:
    """Compute what a step of inference computes; leave it out, and "infer" out of `modes`, if it is trained only."""
    return model(batch[0])


def optimizer() -> tuple[Any, dict[str, Any]]:
    """Give the optimizer's class and arguments; treatments may add to them."""
    import torch

    return torch.optim.AdamW, {"lr": 1e-3}


WORKLOAD = Workload(
    name="NAME",
    summary="a small perceptron on random numbers",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.Sequential.html",),
    unit="rows",  # what `items` counts: images, tokens, rows
    traits=frozenset({"gelu"}),  # treatments may ask for them: conv, batchnorm, image, attention, dropout, text, ...
    presets={  # the sizes; every one gives all parameters. tiny: a step in milliseconds on a CPU
        "tiny": {"batch": 32, "width": 64, "items": 512},
        "small": {"batch": 256, "width": 1024, "items": 4096},
        "full": {"batch": 4096, "width": 8192, "items": 65536},
    },
    modes=("train", "infer"),
    packages=("torch",),  # what must be installed; a trial is skipped, with a sentence, where one is not
    dataset=dataset,
    model=model,
    loss=loss,
    predict=predict,
    optimizer=optimizer,
    items=lambda batch: len(batch[0]),
)
