"""The torch side in this process: what warm-up leaves behind, what a window holds, what is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from harness.child import measure
from harness.child.rig import Rig
from harness.child.torch_side.assemble import assemble
from harness.plan import resolved_measure
from harness.record import ChildRecord, Outcome
from harness.spec import Arm, Cell, Kind, Measure, NoEffect, Proof, Source, Treatment, Trial, Use, Workload
from tests.helpers import treatment

ITEMS = 40
SOURCE = Source(name="net", module="tests.child.test_assemble", path=__file__, constant="WORKLOAD")


@pytest.fixture(autouse=True)
def leave_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    torch.compiler.set_stance("default")


def dataset(folder: Path, mode: str, seed: int, on_bad_item: str, **params: Any) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(ITEMS, 6, generator=generator), torch.arange(ITEMS))


def model(mode: str, **params: Any) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.2))


NET = Workload(
    name="net",
    summary="a net for tests",
    sources=(),
    unit="rows",
    traits=frozenset({"batchnorm"}),
    presets={"tiny": {"batch": 4}},
    dataset=dataset,
    model=model,
    loss=lambda net, batch: net(batch[0]).square().mean(),
    predict=lambda net, batch: net(batch[0]),
    optimizer=lambda: (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    items=lambda batch: len(batch[0]),
)


def trial(kind: Kind = Kind.TIMING, mode: str = "train", data: str = "loader", names: tuple[str, ...] = ()) -> Trial:
    cell = Cell(
        workload="net",
        params={"batch": 4},
        preset="tiny",
        mode=mode,
        input=data,
        data_digest="d",
        device="cpu",
        arm=Arm(tuple(Use(name) for name in sorted(names))),
        kind=kind,
        measure=resolved_measure(Measure(window_ms=1), "cpu"),
    )
    return Trial(
        trial_id="t",
        spec_id="s",
        session_id="x",
        cell=cell,
        cell_id="c",
        is_baseline=True,
        block_index=0,
        position=0,
        seed=3,
        device_index=None,
        threads=1,
        rank_count=1,
        data_folder="",
        items_in_data=ITEMS,
        work_folder="",
        compile_cache="",
        workload_source=SOURCE,
        treatment_sources=(),
    )


def rig(asked: Trial, *treatments: Treatment) -> Rig:
    return assemble(asked, NET, sorted(treatments, key=lambda each: each.name))


def run(asked: Trial, *treatments: Treatment, foreign: tuple[Treatment, ...] = ()) -> ChildRecord:
    pairs = list(zip(sorted(treatments, key=lambda each: each.name), asked.cell.arm.uses, strict=True))
    proofs = measure.Proofs(pairs, [(each, Use(each.name)) for each in foreign])
    made = rig(asked, *treatments)
    return measure.measure(asked, made, proofs, measure.Startup(started=0, imported=1, built=2))


def state(made: Rig) -> list[torch.Tensor]:
    net = made.bench.model
    return [tensor.detach().clone() for tensor in (*net.parameters(), *net.buffers())]


def test_warm_up_leaves_no_trace():
    fresh, warmed = rig(trial()), rig(trial())
    untouched = state(fresh)
    for _ in range(7):
        warmed.step()
    assert not all(torch.equal(a, b) for a, b in zip(untouched, state(warmed), strict=True))
    warmed.restore()
    assert all(torch.equal(a, b) for a, b in zip(untouched, state(warmed), strict=True))
    assert all(not value.any() for entry in warmed.bench.optimizer.state.values() for value in entry.values())
    losses = []
    for made in (fresh, warmed):
        made.restore()  # both start from the same random state, as every timed part does
        losses.append([(made.step(), made.loss())[1] for _ in range(12)])
    assert losses[0] == losses[1]


def test_equal_seeds_see_equal_batches_and_other_seeds_do_not():
    def first_rows(seed: int) -> torch.Tensor:
        asked = trial()
        made = rig(Trial(**{name: getattr(asked, name) for name in asked.__dataclass_fields__} | {"seed": seed}))
        made.step()
        return made.bench.sample_batch()[1]

    assert torch.equal(first_rows(3), first_rows(3))
    assert not torch.equal(first_rows(3), first_rows(4))


def test_an_epochs_end_does_not_end_the_data():
    made = rig(trial())
    for _ in range(3 * ITEMS // 4):
        made.step()
    assert made.counters.steps_performed == 3 * ITEMS // 4


def test_a_trial_counts_its_steps_and_its_wait_for_data():
    record = run(trial())
    assert record.outcome is Outcome.OK
    assert record.items_per_step == 4
    assert record.steps_asked == record.steps_performed == sum(window.step_count for window in record.windows)
    assert all(0 < (window.data_wait_ns or 0) < window.host_ns for window in record.windows)
    assert all(window.compiles == 0 for window in record.windows)
    assert record.facts["threads.intra"] == torch.get_num_threads()


def test_resident_input_calls_no_loader_inside_a_window():
    fetched: list[int] = []

    class Counting(TensorDataset):
        def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
            fetched.append(index)
            return super().__getitem__(index)

    counting = treatment("counting", "data", hooks={"data": lambda data, bench, **params: Counting(*data.tensors)})
    made = rig(trial(data="resident", names=("counting",)), counting)
    before = len(fetched)
    for _ in range(20):
        made.step()
    assert len(fetched) == before
    assert run(trial(data="resident")).windows[0].data_wait_ns is None


def test_inference_keeps_no_graph_and_counts_its_calls():
    record = run(trial(mode="infer"))
    assert record.outcome is Outcome.OK
    assert record.steps_performed == record.steps_asked
    assert (record.loss_before, record.loss_after) == (None, None)


def test_micro_batches_add_up_to_the_whole_batch():
    halves = treatment("halves", "update.split", hooks={"update.split": lambda split, bench, **p: _halves})
    plain, split = rig(trial()), rig(trial(names=("halves",)), halves)
    for made in (plain, split):
        made.bench.model[1] = torch.nn.Identity()
        made.bench.model[2] = torch.nn.Identity()
        made.step()
    assert split.loss() == pytest.approx(plain.loss(), rel=1e-5)
    weights = [made.bench.model[0].weight for made in (plain, split)]
    assert torch.allclose(weights[0], weights[1], rtol=1e-4, atol=1e-6)


def _halves(batch: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    return [[tensor[:2] for tensor in batch], [tensor[2:] for tensor in batch]]


def test_a_skipped_step_makes_an_arm_not_comparable():
    from harness.collect import SessionIds, collect
    from harness.launch import Launched

    skipping = treatment("skipping", "update.apply", hooks={"update.apply": lambda apply, bench, **p: lambda: False})
    record = run(trial(names=("skipping",)), skipping)
    assert record.steps_performed == 0
    ids = SessionIds(base_env_id="e", hardware_id="h", machine_id="m", environment_id="n", device="cpu", cores=2)
    row, _ = collect(trial(), Launched(outcome=Outcome.OK, reason="", ranks=(record,)), ids, "k", 0)
    assert row.outcome is Outcome.NOT_COMPARABLE
    assert "0 of" in row.reason


def test_a_refused_proof_takes_the_numbers_away():
    def refuse(bench: Any, snapshot: Any, trace: Any, **params: Any) -> dict[str, Any]:
        raise NoEffect("not seen")

    idle = treatment("idle")
    refused = Treatment(
        **{name: getattr(idle, name) for name in idle.__dataclass_fields__} | {"proof": Proof(after=refuse)}
    )
    record = run(trial(names=("idle",)), refused)
    assert (record.outcome, record.reason, record.windows) == (Outcome.NOT_APPLIED, "idle: not seen", ())


def test_a_preparation_has_no_windows_and_hears_the_other_arms_proofs():
    record = run(trial(kind=Kind.PREPARE), foreign=(treatment("elsewhere"),))
    assert record.windows == ()
    assert record.already_so == {"elsewhere": {}}
