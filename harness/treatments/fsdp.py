"""Divides parameters, gradients and optimizer state among several processes, and gathers a block's when it is needed.

This is stage 3 of ZeRO; with `reshard=false` gathered parameters are kept from forward to backward pass, which sends
less and holds more: stage 2. `offload` keeps each share in host memory. Helps where the model's state does not fit
beside its activations. Costs sending all parameters two or three times a step. The batch is per rank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from harness.spec import NoEffect, NotApplicable, Numerics, Param, Proof, Requires, Treatment


def process(change: Any, machine: Any, ranks: int, reshard: bool, offload: bool) -> Any:
    """One process a rank."""
    return change.with_ranks(ranks)


def shard(model: Any, bench: Any, ranks: int, reshard: bool, offload: bool) -> Any:
    """Shard each repeated block by itself, so that few are gathered at a time, and then what is left."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

    if not all(weight.is_contiguous() for weight in model.parameters()):
        raise NotApplicable("only contiguous parameters can be divided; this arm lays them out in another way")
    mesh = init_device_mesh(torch.device(bench.device).type, (bench.rank_count,))
    policy = CPUOffloadPolicy() if offload else OffloadPolicy()
    blocks = bench.workload.blocks(model) if bench.workload.blocks else []
    for module in (*blocks, model):
        fully_shard(module, mesh=mesh, reshard_after_forward=reshard, offload_policy=policy)

    @contextlib.contextmanager
    def without_sync() -> Iterator[None]:
        model.set_requires_gradient_sync(False)
        yield
        model.set_requires_gradient_sync(True)

    bench.without_sync = without_sync
    return model


def proof(bench: Any, snapshot: Any, trace: Any, ranks: int, reshard: bool, offload: bool) -> dict[str, Any]:
    """No rank holds all parameters or their state, gradients were scattered, and the backward pass gathered again."""

    def share(tensor: Any) -> Any:
        return tensor.to_local() if hasattr(tensor, "to_local") else tensor

    weights = [weight for weight in bench.model.parameters() if weight.requires_grad]
    state = [value for entry in bench.optimizer.state.values() for value in entry.values() if hasattr(value, "nbytes")]
    held = bench.gather(sum(share(weight).numel() for weight in weights))
    parameter_bytes = bench.gather(sum(share(weight).nbytes for weight in weights))
    state_bytes = bench.gather(sum(share(value).nbytes for value in state))
    trained = sum(weight.numel() for weight in weights)
    scattered = [each for each in trace.collectives() if each.name.startswith("reduce_scatter")]
    gathered_again = any(op.backward for op in trace.named("c10d::_allgather"))
    if bench.rank_count != ranks or max(held) >= trained:
        raise NoEffect(f"ranks hold {held} of {trained} parameters")
    if not scattered:
        raise NoEffect("no gradient was scattered to the ranks in the step")
    if gathered_again != reshard:
        raise NoEffect(f"the backward pass gathered parameters again: {gathered_again}, with reshard={reshard}")
    if offload and any(share(weight).device.type != "cpu" for weight in weights):
        raise NoEffect("the shares of the parameters are not in host memory")
    return {
        "ranks": ranks,
        "parameters": trained,
        "parameters_by_rank": held,
        "parameter_bytes_by_rank": parameter_bytes,
        "state_bytes_by_rank": state_bytes,
        "gradients_scattered_bytes": sum(each.size_bytes for each in scattered),
        "gathered_again_in_backward": gathered_again,
    }


def requires(ranks: int, reshard: bool, offload: bool) -> Requires:
    """Host memory is elsewhere only for a GPU."""
    return Requires(modes=("train",), ranks=ranks, devices=("cuda",) if offload else ("cpu", "cuda"))


def numerics(traits: frozenset[str]) -> Numerics:
    """BatchNorm normalises over one rank's batch; a mean over unequal numbers of tokens is weighted differently."""
    return "changes" if traits & {"batchnorm", "padding"} else "close"


TREATMENT = Treatment(
    name="fsdp",
    summary="parameters, gradients and optimizer state divided among the ranks (ZeRO stages 2 and 3)",
    sources=(
        "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",
        "https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html",
        "https://arxiv.org/abs/1910.02054",
        "https://arxiv.org/abs/2304.11277",
    ),
    params={
        "ranks": Param(2, "processes that train together, each on a device of its own", kind="int", minimum=2),
        "reshard": Param(True, "whether gathered parameters are dropped after the forward pass", kind="bool"),
        "offload": Param(False, "whether each share lies in host memory", kind="bool"),
    },
    requires=Requires(modes=("train",), ranks=2),
    requires_for=requires,
    hooks={"process": process, "shard": shard},
    proof=Proof(after=proof),
    changes=("items_per_step", "rank_count", "threads"),
    addresses=("memory",),
    numerics=numerics,
)
