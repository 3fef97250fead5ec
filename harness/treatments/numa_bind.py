"""Binds the process to one NUMA node: its cores and its memory, so that no access crosses to another socket.

Helps on machines of several sockets, and keeps data near the GPU of the node. Hurts where one node has too few cores
or too little memory. With one node only everything is bound already.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment

NODES = Path("/sys/devices/system/node/online")


def process(change: Any, machine: Any, node: int) -> Any:
    """Start it under numactl."""
    return change.with_prefix("numactl", f"--cpunodebind={node}", f"--membind={node}")


def proof(bench: Any, snapshot: Any, trace: Any, node: int) -> dict[str, Any]:
    """The memory of this process is mapped under a policy that binds it to the node, or there is no other node."""
    online = NODES.read_text().strip() if NODES.exists() else "0"
    if online == str(node):
        return {"nodes_online": online}
    policies = [line.split()[1] for line in Path("/proc/self/numa_maps").read_text().splitlines()]
    bound = [policy for policy in policies if policy == f"bind:{node}"]
    if 2 * len(bound) < len(policies) or not bound:
        raise NoEffect(f"{len(bound)} of {len(policies)} mappings are bound to node {node}; nodes online: {online}")
    return {"mappings_bound": len(bound), "mappings": len(policies), "nodes_online": online}


TREATMENT = Treatment(
    name="numa_bind",
    summary="cores and memory of one NUMA node",
    sources=(
        "https://man7.org/linux/man-pages/man8/numactl.8.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    params={"node": Param(0, "the node", kind="int", minimum=0)},
    requires=Requires(commands=("numactl",)),
    hooks={"process": process},
    proof=Proof(after=proof),
    occupies=("affinity",),
    changes=("affinity", "numa"),
    addresses=("memory", "host"),
)
