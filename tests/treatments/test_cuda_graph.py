"""The parts of a captured step that need no GPU: copying the batch in, and what the proof makes of a trace."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.arms import parse_arm
from harness.plan import conflict
from harness.registry import load_registry
from harness.spec import NoEffect, NotApplicable
from harness.treatments import cuda_graph
from tests.treatments.traces import gemms, trace

WORKLOAD = SimpleNamespace(name="toy")


def test_a_batch_is_copied_into_the_recorded_one_in_place() -> None:
    recorded = {"ids": torch.zeros(2, 3), "pair": (torch.zeros(1), torch.zeros(1))}
    address = recorded["ids"].data_ptr()
    cuda_graph.copy_into(recorded, {"ids": torch.ones(2, 3), "pair": (torch.ones(1), torch.full((1,), 2.0))})
    assert recorded["ids"].data_ptr() == address
    assert recorded["ids"].sum() == 6
    assert recorded["pair"][1] == 2


def test_another_shape_is_refused_and_not_broadcast() -> None:
    with pytest.raises(NotApplicable, match=r"\(1, 3\) cannot be replayed as \(2, 3\)"):
        cuda_graph.copy_into((torch.zeros(2, 3),), (torch.ones(1, 3),))


def test_the_optimizer_counts_its_steps_on_the_device() -> None:
    bench = SimpleNamespace(workload=WORKLOAD)
    assert cuda_graph.optimizer((torch.optim.AdamW, {"lr": 1}), bench)[1] == {"lr": 1, "capturable": True}
    assert cuda_graph.optimizer((torch.optim.SGD, {"lr": 1}), bench)[1] == {"lr": 1}
    with pytest.raises(NotApplicable, match="LBFGS"):
        cuda_graph.optimizer((torch.optim.LBFGS, {}), bench)


def bench(replays: int) -> Any:
    return SimpleNamespace(kept={"cuda_graph": {"replays": replays}} if replays else {})


def test_replays_are_told_from_single_launches() -> None:
    replayed = trace(["cudaMemcpyAsync", "cudaGraphLaunch"], gemms(50))
    assert cuda_graph.after(bench(9), 4, replayed) == {"replays": 5, "kernels_in_step": 50, "launched_one_by_one": 0}
    with pytest.raises(NoEffect, match="0 graph launches"):
        cuda_graph.after(bench(9), 4, trace(["cudaLaunchKernel"] * 50, gemms(50)))
    with pytest.raises(NoEffect, match="0 replays"):
        cuda_graph.after(bench(4), 4, replayed)
    with pytest.raises(NoEffect, match="one by one"):
        cuda_graph.after(bench(9), 4, trace(["cudaGraphLaunch", *["cudaLaunchKernel"] * 40], gemms(50)))


@pytest.mark.parametrize(
    ("other", "words"),
    [("amp_fp16", "loss scaler"), ("anomaly_detection", "on the host"), ("length_bucketing", "differ in shape"),
     ("alloc_async", "no memory pools"), ("torch_compile(mode=reduce-overhead)", "captures CUDA graphs itself")],
)  # fmt: skip
def test_what_cannot_be_recorded_is_a_conflict_in_words(other: str, words: str) -> None:
    arm = parse_arm("+".join(sorted(["cuda_graph", other])))
    assert words in (conflict(arm, load_registry().treatments) or "")


def test_the_usual_company_can_be_recorded() -> None:
    arm = parse_arm("amp_bf16+channels_last+cuda_graph+fused_optimizer+torch_compile")
    assert conflict(arm, load_registry().treatments) is None
