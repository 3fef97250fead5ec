"""What is measured beside the windows: parts of a step, operations by the books, whole passes, peaks by phase."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.child import traced
from harness.child.torch_side import flops
from harness.child.torch_side.afterwards import same_bits
from harness.child.torch_side.bench import TorchBench, Treated
from harness.child.torch_side.trace import StepTrace
from harness.record import ChildRecord, Outcome
from harness.spec import Kernel, Kind, Op, TensorInfo
from tests.contracts import trying
from tests.workloads.test_workloads import open_tiny

# ------------------------------------------------------------------------------------------------ operations


def bench_of(name: str, cache: Path, mode: str, **changes: Any) -> TorchBench:
    workload, _, batches = open_tiny(name, cache, mode, **changes)
    params = {**workload.presets["tiny"], **changes}
    bench = TorchBench(workload, mode, params, torch.device("cpu"), seed=0, rank=0, rank_count=1)
    bench.latest_batch = next(batches)
    return bench


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_a_transformers_operations_follow_the_formula(mode: str, tmp_path: Path) -> None:
    """Two for every weight and token, and two products of length x width a head; three times that with backward."""
    bench = bench_of("gpt2_small", tmp_path, mode)
    layers, width, length = (int(bench.params[key]) for key in ("layers", "width", "sequence_length"))
    vocabulary, batch = int(bench.params["vocabulary"]), int(bench.params["batch"])
    weights = layers * 12 * width**2 + width * vocabulary
    forward = batch * length * (2 * weights + layers * 4 * length * width)
    assert flops.of_a_step(bench) == forward * (3 if mode == "train" else 1)


def test_a_convolutional_networks_operations_follow_the_formula(tmp_path: Path) -> None:
    """Each output of a convolution takes a product with its whole window; the first needs no gradient of its input."""
    bench = bench_of("resnet50", tmp_path, "infer")
    model = open_tiny("resnet50", tmp_path, "infer")[1]
    by_hand = []
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            module.register_forward_hook(
                lambda part, given, out: by_hand.append(2 * out.numel() * part.weight[0].numel())
            )
    with torch.inference_mode():
        model(bench.latest_batch[0])
    assert flops.of_a_step(bench) == sum(by_hand)
    bench.mode = "train"
    assert flops.of_a_step(bench) == 3 * sum(by_hand) - by_hand[0]


def test_counting_is_remembered_by_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of("gpt2_small", tmp_path, "infer")
    memo = tmp_path / "new" / "operations.json"
    first = flops.remembered(bench, Treated(bench, []), memo)
    assert first.plain == first.treated > 0
    monkeypatch.setattr(flops, "of_a_step", lambda *_: pytest.fail("counted again"))
    assert flops.remembered(bench, Treated(bench, []), memo) == first


def test_removed_channels_are_operations_less(tmp_path: Path) -> None:
    record = timed("resnet50", "channel_prune", tmp_path)
    assert record.afterwards["flops_per_item"] < record.afterwards["model_flops_per_item"]
    assert record.not_measured == {}


# ------------------------------------------------------------------------------------------------ whole trials


def timed(
    name: str, arm: str, folder: Path, mode: str = "train", kind: Kind = Kind.TIMING, **measure: Any
) -> ChildRecord:
    trial = trying.make_trial(name, arm, folder, mode=mode, kind=kind)
    settings = dataclasses.replace(trial.cell.measure, **measure)
    record = trying.run(dataclasses.replace(trial, cell=dataclasses.replace(trial.cell, measure=settings)))
    assert record.outcome in (Outcome.OK, Outcome.NOT_STEADY), record.reason
    return record


def test_a_training_step_is_taken_apart(tmp_path: Path) -> None:
    record = timed("gpt2_small", "", tmp_path)
    found = record.afterwards
    assert record.step_kind == "train"
    assert record.product_dtype == "float32"
    assert record.device_busy is None
    parts = found["forward_ns"] + found["backward_ns"] + found["optimizer_ns"]
    step = sum(window.host_ns for window in record.windows) / sum(window.step_count for window in record.windows)
    assert 0.2 * step < parts < 5 * step
    assert found["bit_identical"] is True
    assert found["sample_ns"] > 0
    assert found["allocation_ns"] > 0
    assert record.peak_warm_up_bytes
    assert record.not_measured == {}


def test_prompt_and_answer_are_timed_apart(tmp_path: Path) -> None:
    found = timed("gpt2_generate", "", tmp_path, mode="infer").afterwards
    assert '"prefill"' in found["parts_json"]
    assert '"decode"' in found["parts_json"]
    assert found["forward_ns"] > 0


@pytest.mark.parametrize("arm", ["", "loader_workers(workers=1)", "loader_workers(workers=1)+persistent_workers"])
def test_an_epoch_is_a_whole_pass(arm: str, tmp_path: Path) -> None:
    record = timed("image_loader", arm, tmp_path, protocol="epochs", windows=5)
    assert record.steps_per_epoch == 64 // 4
    assert record.items_per_step == 4
    assert {window.step_count for window in record.windows} == {16}
    assert all(window.data_wait_ns and window.data_wait_ns > 0.5 * window.host_ns for window in record.windows)
    assert record.steps_performed == record.steps_asked == 16 * len(record.windows)
    assert set(record.evidence) == set(trying.resolved(arm).names)


def test_an_epoch_of_training_counts_tokens_without_padding(tmp_path: Path) -> None:
    record = timed("bert_base", "", tmp_path, protocol="epochs", windows=5)
    longest = trying.registry().workload("bert_base").presets["tiny"]
    assert record.steps_per_epoch
    assert record.items_per_step is not None
    assert 0 < record.items_per_step < int(longest["batch"]) * int(longest["sequence_length"])


def test_latency_is_a_request_at_a_time(tmp_path: Path) -> None:
    record = timed("gpt2_small", "", tmp_path, "infer", protocol="requests", windows=20, window_ms=10_000.0)
    assert {window.step_count for window in record.windows} == {1}
    assert len(record.windows) >= 20


# ------------------------------------------------------------------------------------------------ small parts


def test_equal_bits_are_not_equal_numbers() -> None:
    nan, zero = torch.tensor([float("nan")]), torch.tensor([0.0])
    assert same_bits([nan], [nan.clone()])
    assert not same_bits([zero], [-zero])
    assert not same_bits([zero], [zero, zero])


def trace(kernels: list[tuple[int, int]], dtype: str = "float32") -> StepTrace:
    tensor = TensorInfo(dtype, (2, 2), (2, 1))
    product = Op("aten::mm", (tensor, tensor), 0, 100, 1, False)
    return StepTrace([product], [Kernel("k", *times, 7) for times in kernels], {"matmul": [product]})


def test_the_device_is_busy_while_any_kernel_runs() -> None:
    """Of 100 ns: 10 to 40 by two that overlap, 60 to 80 by one inside another."""
    assert traced.device_busy(trace([(10, 20), (20, 20), (60, 20), (65, 5)])) == pytest.approx(0.5)
    assert traced.device_busy(trace([])) is None
    assert traced.device_busy(None) is None


def test_single_precision_on_a_gpu_is_what_the_library_rounds_to() -> None:
    rounding = {"precision.cuda.matmul": "tf32"}
    assert traced.product_dtype(trace([(0, 1)]), rounding) == "tensorfloat32"
    assert traced.product_dtype(trace([(0, 1)]), {"precision.cuda.matmul": "ieee"}) == "float32"
    assert traced.product_dtype(trace([]), rounding) == "float32", "a CPU has no such flag"
    assert traced.product_dtype(trace([(0, 1)], "bfloat16"), rounding) == "bfloat16"
