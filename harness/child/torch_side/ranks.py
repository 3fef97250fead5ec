"""Several processes that run one trial together: how they meet, decide alike, and look at each other."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed

from harness.spec import NotApplicable

TIMEOUT = timedelta(minutes=5)
"""How long a rank waits for the others before it fails: more than one compiles longer than another."""


def join(device: torch.device) -> None:
    """Enter the group of the processes that torchrun started; it is left when this process ends.

    Tensors on the host always go through gloo, so that agreeing on something never touches the device.
    """
    backends = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "cpu:gloo"
    torch.distributed.init_process_group(backends, timeout=TIMEOUT)
    atexit.register(torch.distributed.destroy_process_group)  # by then the record of a rank that failed is written


def largest(value: float) -> float:
    """The largest of the ranks' values, the same on all of them; they wait for one another here."""
    shared = torch.tensor([value], dtype=torch.float64)
    torch.distributed.all_reduce(shared, torch.distributed.ReduceOp.MAX)
    return float(shared.item())


def gather(value: Any, rank_count: int) -> list[Any]:
    """The value of every rank, in rank order; every rank has to call it."""
    if rank_count == 1:
        return [value]
    values: list[Any] = [None] * rank_count
    torch.distributed.all_gather_object(values, value)
    return values


def share(batch: Any, rank: int, rank_count: int) -> Any:
    """A rank's part of a batch, equal to the others', along the first dimension of every tensor."""
    if isinstance(batch, torch.Tensor):
        if len(batch) % rank_count:
            raise NotApplicable(f"a batch of {len(batch)} cannot be divided equally among {rank_count} ranks")
        return batch.tensor_split(rank_count)[rank]
    if isinstance(batch, Mapping):
        return {key: share(value, rank, rank_count) for key, value in batch.items()}
    return type(batch)(share(value, rank, rank_count) for value in batch)
