"""Trains one copy of the model in each of several processes, on data of its own, and averages their gradients.

The batch is per rank: two ranks do twice the work in a step. Helps where the averaging hides behind the backward pass;
compression helps where the link between the devices is the limit, and changes the gradients. BatchNorm sees its rank's
batch only, so results move where a model has it. Hurts on a CPU, whose cores the ranks share.
"""

from __future__ import annotations

from typing import Any

from harness.spec import NoEffect, Numerics, Param, Proof, Requires, Treatment

DTYPES = {"none": "float32", "fp16": "float16", "bf16": "bfloat16"}
ONE_BUCKET_MB = 16384
"""PowerSGD's exchanges differ in size from bucket to bucket, which gloo refuses; in one bucket there is one size."""


def process(change: Any, machine: Any, ranks: int, **_: Any) -> Any:
    """One process a rank."""
    return change.with_ranks(ranks)


def shard(model: Any, bench: Any, ranks: int, backend: str, compress: str, approximation: int) -> Any:
    """Wrap the model, and compress what it exchanges."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    cuda = torch.device(bench.device).type == "cuda"
    wrapped = DistributedDataParallel(
        model,
        device_ids=[bench.device] if cuda else None,
        process_group=torch.distributed.new_group(backend=backend) if backend != "auto" else None,
        bucket_cap_mb=ONE_BUCKET_MB if compress == "powersgd" else None,
    )
    _compress(wrapped, compress, approximation)
    bench.without_sync = wrapped.no_sync
    return wrapped


def _compress(wrapped: Any, compress: str, approximation: int) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    group = wrapped.process_group
    if compress == "fp16":
        wrapped.register_comm_hook(group, default_hooks.fp16_compress_hook)
    elif compress == "bf16":
        wrapped.register_comm_hook(group, default_hooks.bf16_compress_hook)
    elif compress == "powersgd":
        # the first two steps go uncompressed, since buckets are laid out anew after the first
        state = powerSGD_hook.PowerSGDState(group, approximation, start_powerSGD_iter=2)
        wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def proof(
    bench: Any, snapshot: Any, trace: Any, ranks: int, backend: str, compress: str, approximation: int
) -> dict[str, Any]:
    """The step reduced gradients in the dtype asked for, and ranks that saw different data hold the same parameters."""
    reduced = [each for each in trace.collectives() if each.name.startswith("allreduce")]
    held = bench.gather([weight.detach().double().sum().item() for weight in bench.model.parameters()])
    if bench.rank_count != ranks or not reduced:
        raise NoEffect(f"{len(reduced)} all-reduces in the step of {bench.rank_count} ranks")
    if any(sums != held[0] for sums in held):
        raise NoEffect("the ranks' parameters differ after the same number of steps")
    size = sum(each.size_bytes for each in reduced)
    gradients = sum(weight.numel() for weight in bench.model.parameters() if weight.requires_grad)
    dtypes = {each.dtype for each in reduced if each.size_bytes > 4}
    if compress == "powersgd":
        if size >= 2 * gradients:
            raise NoEffect(f"{size} bytes reduced for {gradients} gradients: no low-rank approximation")
    elif dtypes != {DTYPES[compress]}:
        raise NoEffect(f"gradients were reduced in {sorted(dtypes)}, not {DTYPES[compress]}")
    return {
        "ranks": ranks,
        "all_reduces": len(reduced),
        "bytes": size,
        "dtypes": sorted(dtypes),
        "gradients": gradients,
    }


def requires(ranks: int, backend: str, compress: str, approximation: int) -> Requires:
    """NCCL moves data between CUDA devices only."""
    return Requires(modes=("train",), ranks=ranks, devices=("cuda",) if backend == "nccl" else ("cpu", "cuda"))


def numerics(traits: frozenset[str]) -> Numerics:
    """BatchNorm normalises over one rank's batch; a mean over unequal numbers of tokens is weighted differently."""
    return "changes" if traits & {"batchnorm", "padding"} else "close"


def numerics_for(traits: frozenset[str], ranks: int, backend: str, compress: str, approximation: int) -> Numerics:
    """A low-rank approximation is another gradient; a shorter format is a coarser one."""
    return "changes" if compress == "powersgd" else numerics(traits)


TREATMENT = Treatment(
    name="ddp",
    summary="a copy of the model in each of several processes, gradients averaged",
    sources=(
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
        "https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html",
        "https://arxiv.org/abs/2006.15704",
        "https://arxiv.org/abs/1905.13727",
    ),
    params={
        "ranks": Param(2, "processes that train together, each on a device of its own", kind="int", minimum=2),
        "backend": Param("auto", "what carries the gradients", choices=("auto", "gloo", "nccl")),
        "compress": Param("none", "how gradients are sent", choices=("none", "fp16", "bf16", "powersgd")),
        "approximation": Param(1, "rank of the matrices that powersgd sends", kind="int", minimum=1),
    },
    requires=Requires(modes=("train",), ranks=2),
    requires_for=requires,
    hooks={"process": process, "shard": shard},
    proof=Proof(after=proof),
    changes=("items_per_step", "rank_count", "threads"),
    addresses=("compute", "communication"),
    numerics=numerics,
    numerics_for=numerics_for,
)
