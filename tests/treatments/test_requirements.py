"""Needs and conflicts that depend on parameters or on the company, in words."""

from __future__ import annotations

import pytest

from harness.arms import full_params, parse_arm
from harness.plan import conflict
from harness.registry import load_registry
from harness.spec import Requires

TREATMENTS = load_registry().treatments


def needs(arm: str) -> Requires:
    (use,) = parse_arm(arm).uses
    treatment = TREATMENTS[use.name]
    assert treatment.requires_for
    return treatment.requires_for(**full_params(use, treatment))


def test_modes_that_capture_graphs_need_cuda() -> None:
    assert needs("torch_compile").devices == ("cpu", "cuda")
    assert needs("torch_compile(mode=reduce-overhead)").devices == ("cuda",)


def test_two_kernels_of_attention_need_cuda() -> None:
    assert needs("sdpa_backend(name=math)").devices == ("cpu", "cuda")
    assert needs("sdpa_backend(name=efficient)").devices == ("cuda",)


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("amp_bf16+amp_fp16", "precision"),
        ("fused_optimizer+foreach_optimizer", "optimizer implementation"),
        ("torch_compile+compile_blocks", "stage 'compile'"),
        ("torch_compile(mode=reduce-overhead)+alloc_async", "no graph pools"),
        ("alloc_async+alloc_max_split", "replaces"),
        ("jemalloc+tcmalloc", "malloc"),
        ("gradient_checkpointing+activation_offload", "activations"),
        ("dataset_cache+decode_torchvision", "decoder"),
        ("channel_mask+channel_prune", "channels"),
    ],
)
def test_conflicts_are_told_in_words(arm: str, words: str) -> None:
    assert words in (conflict(parse_arm(arm), TREATMENTS) or "")


def test_the_usual_stacks_have_no_conflict() -> None:
    for arm in ("amp_bf16+channels_last+torch_compile", "amp_fp16+gradient_accumulation+fused_optimizer"):
        assert conflict(parse_arm(arm), TREATMENTS) is None
