"""The workloads that train nothing: a loader alone, generation, numerical libraries, other programs."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.plan import Place, unmet_by_arm
from harness.registry import load_registry
from harness.spec import Arm, UsageError, Use
from harness.workloads.data import processes
from tests.contracts import trying
from tests.workloads.test_workloads import open_tiny

REGISTRY = load_registry()
PLAIN = ("noop", "numpy_dot", "numpy_fft", "scipy_eig")


def plain(name: str, **params: Any) -> Any:
    made = REGISTRY.workload(name).plain
    assert made
    return made("train", 0, **params)


# ------------------------------------------------------------------------------------------------ generating


def test_the_cache_changes_nothing_in_what_is_computed(cache: Path) -> None:
    """Token by token from the cache, and in one pass over the whole text: the same scores."""
    workload, model, batches = open_tiny("gpt2_generate", cache, "infer")
    batch = next(batches)
    mask, ids = batch["attention_mask"], batch["input_ids"]
    assert (mask[:, : ids.shape[1]] == 0).any(), "prompts vary in length"
    assert workload.predict
    with torch.inference_mode():
        scores = workload.predict(model, batch)
        whole = torch.cat([ids, ids[:, : mask.shape[1] - ids.shape[1]]], 1)
        logits = model(input_ids=whole, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits
    torch.testing.assert_close(scores, logits[:, ids.shape[1] - 1 : -1].max(-1).values)


def test_prompt_and_written_tokens_are_counted_apart(cache: Path) -> None:
    workload, _, batches = open_tiny("gpt2_generate", cache, "infer")
    batch = next(batches)
    prompts = int((batch["input_ids"] != 0).sum())
    counts = {name: part.items(batch) for name, part in workload.parts.items()}
    assert counts == {"prefill": prompts, "decode": 4 * 8}
    assert workload.items
    assert workload.items(batch) == prompts + 4 * 8


def test_the_parts_are_the_prediction(cache: Path) -> None:
    workload, model, batches = open_tiny("gpt2_generate", cache, "infer")
    batch = value = next(batches)
    with torch.inference_mode():
        for part in workload.parts.values():
            value = part.run(model, value)
        assert workload.predict
        assert torch.equal(value, workload.predict(model, batch))


# ------------------------------------------------------------------------------------------------ a loader alone


def test_bert_large_is_the_published_one() -> None:
    workload = REGISTRY.workload("bert_large")
    assert workload.model
    with torch.device("meta"):
        model = workload.model("train", **workload.presets["full"])
    width, layers, vocabulary = 1024, 24, 30522
    layer = 4 * (width * width + width) + 8 * width * width + 5 * width + 4 * width
    embeddings = (vocabulary + 512 + 2) * width + 2 * width
    head = width * width + width + 2 * width + vocabulary  # its matrix is the embedding's
    assert sum(parameter.numel() for parameter in model.parameters()) == layers * layer + embeddings + head


@pytest.mark.parametrize("arm", ["", "loader_workers(workers=1)+prefetch_factor"])
def test_the_loader_alone_is_measured_and_treated(arm: str, tmp_path: Path) -> None:
    record = trying.run(trying.make_trial("image_loader", arm, tmp_path))
    assert record.reason == ""
    assert record.items_per_step == 4
    assert record.loss_after is None
    assert set(record.evidence) == {use.name for use in trying.resolved(arm).uses}


@pytest.mark.parametrize(
    ("workload", "treatment", "reason"),
    [
        ("image_loader", "amp_bf16", "amp_bf16 acts on a torch workload's model; image_loader has none"),
        ("numpy_dot", "loader_workers", "loader_workers acts on a torch workload's data; numpy_dot has none"),
        ("numpy_dot", "slowdown", None),
        ("image_loader", "loader_workers", None),
    ],
)
def test_the_plan_skips_what_has_nothing_to_act_on(workload: str, treatment: str, reason: str | None) -> None:
    work = REGISTRY.workload(workload)
    place = Place(workload, {}, "tiny", "train", "loader", {})
    arm = Arm((Use(treatment),))
    assert unmet_by_arm(arm, work, place, "cpu", trying.machine(), REGISTRY.treatments) == reason


# ------------------------------------------------------------------------------------------------ numerical libraries


def test_the_numerical_steps_compute_what_they_say() -> None:
    product = plain("numpy_dot", size=16, dtype="float64").step()
    left, right = (np.random.default_rng(seed).standard_normal((16, 16)) for seed in (0, 1))
    np.testing.assert_allclose(product, np.einsum("ij,jk->ik", left, right))
    np.testing.assert_allclose(np.fft.ifft2(plain("numpy_fft", size=16, dtype="float64").step()).real, left)
    values, vectors = plain("scipy_eig", size=16, dtype="float64").step()
    np.testing.assert_allclose(left @ vectors, vectors * values)


@pytest.mark.parametrize("name", ["numpy_dot", "numpy_fft", "scipy_eig"])
def test_the_library_at_work_is_named(name: str) -> None:
    bench = plain(name, size=8, dtype="float32")
    bench.step()
    facts = bench.facts()
    assert facts["numpy.version"] == np.__version__
    assert all(pool["filepath"] for pool in facts["blas"])
    assert facts["blas"]


def test_a_size_or_dtype_that_is_none_is_refused() -> None:
    for params in ({"size": 0, "dtype": "float64"}, {"size": 8, "dtype": "int8"}):
        with pytest.raises(UsageError, match="float32, float64"):
            plain("numpy_dot", **params)


# ------------------------------------------------------------------------------------------------ other programs


def shell(command: str, folder: Path) -> Any:
    workload = REGISTRY.workload("shell")
    assert workload.prepare
    assert workload.plain
    data = workload.prepare(folder / "cache", folder, 0, command=command)
    return workload.plain("train", 0, folder=Path(data.folder), command=command)


def test_a_command_runs_in_its_folder_and_its_output_is_kept(tmp_path: Path) -> None:
    bench = shell("sh -c 'echo $((1 + 1)); pwd; echo more >> log'", tmp_path)
    bench.step()
    bench.step()
    assert (tmp_path / "log").read_text() == "more\nmore\n"
    assert bench.facts()["kept.output"] == f"2\n{tmp_path}\n"
    assert bench.facts()["kept.runs"] == 2


def test_a_failing_command_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(processes.CommandFailed, match=r"exit code 3: last words"):
        shell("sh -c 'echo last words; exit 3'", tmp_path).step()
    record = trying.run(trying.make_trial("shell", "", tmp_path, command="sh -c 'exit 3'"))
    assert (record.outcome, record.windows) == ("crashed", ())
    assert "exit code 3" in record.reason


@pytest.mark.parametrize(
    ("command", "words"), [("", "is no command line"), ("echo 'x", "check its quotes"), ("no_such", "no program")]
)
def test_a_command_that_cannot_be_is_refused_before_anything_runs(command: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        shell(command, tmp_path)


def test_a_real_trial_of_a_command(tmp_path: Path) -> None:
    record = trying.run(trying.make_trial("shell", "", tmp_path, command=f"{sys.executable} -c 'print(6 * 7)'"))
    assert record.reason == ""
    assert record.facts["kept.output"] == "42\n"


def test_the_notebook_has_as_many_cells_as_asked(tmp_path: Path) -> None:
    workload = REGISTRY.workload("jupyter_open")
    assert workload.prepare
    data = workload.prepare(tmp_path, None, 0, cells=3)
    notebook = json.loads(Path(data.folder, "large.ipynb").read_text())
    assert len(notebook["cells"]) == 3


def test_without_jupyter_there_is_a_reason(tmp_path: Path) -> None:
    if trying.machine().package_version("jupyterlab"):
        pytest.skip("jupyterlab is installed")
    assert trying.unmet(trying.make_trial("jupyter_open", "", tmp_path)) == (
        "jupyter_open needs the package jupyterlab, which is not installed"
    )


@pytest.mark.skipif(not shutil.which("jupyter-lab"), reason="jupyterlab is not installed")
def test_a_notebook_is_opened(tmp_path: Path) -> None:
    record = trying.run(trying.make_trial("jupyter_open", "", tmp_path, cells=5))
    assert record.reason == ""
    assert record.facts["notebook.bytes"] > 100


def test_two_command_lines_are_compared_and_the_outputs_of_both_kept(tmp_path: Path) -> None:
    """The before and the after of an experiment with any program, each with an exit code that is checked."""
    before = f"{sys.executable} -S -c 'print(\"before\")'"
    arm = f"other_command(line={json.dumps(before.replace('before', 'after'))})"
    plain = trying.run(trying.make_trial("shell", "", tmp_path, command=before, prove=arm))
    assert (plain.reason, plain.facts["kept.output"], plain.already_so) == ("", "before\n", {})
    other = trying.run(trying.make_trial("shell", arm, tmp_path, command=before))
    assert other.reason == ""
    assert other.facts["kept.output"] == "after\n"
    assert other.facts["command"] == other.evidence["other_command"]["command"] != plain.facts["command"]
    failed = trying.run(trying.make_trial("shell", "other_command(line=\"sh -c 'exit 4'\")", tmp_path, command=before))
    assert (failed.outcome, failed.windows) == ("crashed", ())
    assert "sh ended with exit code 4" in failed.reason
