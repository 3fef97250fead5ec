"""The state before warm-up, and how it is put back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness.child.rig import nothing

if TYPE_CHECKING:
    from harness.child.torch_side.bench import TorchBench
    from harness.child.torch_side.source import Source


class Saved:
    """Parameters, buffers and random state before warm-up, put back in place (captured graphs keep their addresses)."""

    def __init__(self, bench: TorchBench, source: Source) -> None:
        self.bench, self.source = bench, source
        self.cpu_state = torch.get_rng_state()
        self.python_state, self.numpy_state = random.getstate(), np.random.get_state()
        self.cuda_state = torch.cuda.get_rng_state(bench.device) if bench.device.type == "cuda" else None
        self.put_back: Callable[[], None] = save(bench.model, bench.optimizer)

    def restore(self) -> None:
        self.put_back()
        self.put_back = nothing  # the copies would count in the peak of the timed part
        self.source.rewind()
        random.setstate(self.python_state)
        np.random.set_state(self.numpy_state)
        torch.set_rng_state(self.cpu_state)
        if self.cuda_state is not None:
            torch.cuda.set_rng_state(self.cuda_state, self.bench.device)


def save(model: Any, optimizer: Any) -> Callable[[], None]:
    """Copy a model's tensors to the host; what is returned puts them back, and zeroes the optimizer's state."""
    tensors = [(tensor, _local(tensor).detach().cpu().clone()) for tensor in _tensors(model)]

    @torch.no_grad()
    def put_back() -> None:
        for tensor, saved in tensors:
            _local(tensor).copy_(saved)
        sharded = getattr(optimizer, "optim", optimizer)  # ZeRO's optimizer holds its rank's share in another
        for state in sharded.state.values() if sharded is not None else ():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    value.zero_()

    return put_back


def _tensors(model: Any) -> list[torch.Tensor]:
    if not isinstance(model, torch.nn.Module):
        return []
    return [*model.parameters(), *model.buffers()]


def _local(tensor: Any) -> torch.Tensor:
    """This rank's share of a sharded tensor; any other as it is."""
    share: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return share
