"""Trains a copy of the model in each of several processes, and lets each keep the optimizer state of its share only.

This is stage 1 of ZeRO: gradients are averaged as with data parallelism, each rank steps its share of the parameters
and sends them to the others. Saves memory where the optimizer's state is large beside the activations (Adam keeps two
numbers a parameter). Costs the sending of parameters in every step. The batch is per rank.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Numerics, Param, Proof, Requires, Treatment


def process(change: Any, machine: Any, ranks: int) -> Any:
    """One process a rank."""
    return change.with_ranks(ranks)


def shard(model: Any, bench: Any, ranks: int) -> Any:
    """Wrap the model, so that gradients are averaged."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    cuda = torch.device(bench.device).type == "cuda"
    wrapped = DistributedDataParallel(model, device_ids=[bench.device] if cuda else None)
    bench.without_sync = wrapped.no_sync
    return wrapped


def optimizer(asked: tuple[Any, dict[str, Any]], bench: Any, ranks: int) -> tuple[Any, dict[str, Any]]:
    """The same optimizer, built on this rank's share of the parameters."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    kind, arguments = asked
    return ZeroRedundancyOptimizer, {"optimizer_class": kind, **arguments}


def proof(bench: Any, snapshot: Any, trace: Any, ranks: int) -> dict[str, Any]:
    """No rank keeps state of all parameters, all of them together do, and they hold the same parameters."""
    weights = [weight for weight in bench.model.parameters() if weight.requires_grad]
    state = getattr(bench.optimizer, "optim", bench.optimizer).state
    stepped = bench.gather(sum(weight.numel() for weight in state))
    bytes_held = bench.gather(
        sum(value.nbytes for entry in state.values() for value in entry.values() if hasattr(value, "nbytes"))
    )
    parameters = bench.gather([weight.detach().double().sum().item() for weight in weights])
    trained = sum(weight.numel() for weight in weights)
    if bench.rank_count != ranks or max(stepped) >= trained or sum(stepped) != trained:
        raise NoEffect(f"ranks keep optimizer state of {stepped} of {trained} parameters")
    if any(sums != parameters[0] for sums in parameters):
        raise NoEffect("the ranks' parameters differ after the same number of steps")
    return {"ranks": ranks, "state_bytes_by_rank": bytes_held, "stepped_by_rank": stepped, "parameters": trained}


def numerics(traits: frozenset[str]) -> Numerics:
    """BatchNorm normalises over one rank's batch; a mean over unequal numbers of tokens is weighted differently."""
    return "changes" if traits & {"batchnorm", "padding"} else "close"


TREATMENT = Treatment(
    name="zero1",
    summary="data parallelism with the optimizer's state divided among the ranks (ZeRO stage 1)",
    sources=(
        "https://docs.pytorch.org/docs/stable/distributed.optim.html",
        "https://docs.pytorch.org/tutorials/recipes/zero_redundancy_optimizer.html",
        "https://arxiv.org/abs/1910.02054",
    ),
    params={"ranks": Param(2, "processes that train together, each on a device of its own", kind="int", minimum=2)},
    requires=Requires(modes=("train",), ranks=2),
    requires_for=lambda ranks: Requires(modes=("train",), ranks=ranks),
    hooks={"process": process, "shard": shard, "optimizer": optimizer},
    proof=Proof(after=proof),
    changes=("items_per_step", "rank_count", "threads"),
    addresses=("memory",),
    numerics=numerics,
)
