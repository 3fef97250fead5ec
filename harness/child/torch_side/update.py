"""One step of a torch trial, in two halves: fetch a batch; then train on it, predict, or do nothing more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness.child.rig import Counters
from harness.child.torch_side.bench import TorchBench, Treated
from harness.child.torch_side.source import Source
from harness.spec import Step


def train_step(bench: TorchBench, treated: Treated, source: Source) -> Step:
    """Fetch; forward, backward and update, with the arm's forward and update stages applied."""
    loss_of, model, optimizer = bench.workload.loss, bench.model, bench.optimizer
    assert loss_of is not None
    bench.forward = treated.apply("forward", lambda batch: loss_of(model, batch))
    forward = bench.forward

    def plain_apply() -> bool:
        optimizer.step()
        return True

    split = treated.apply("update.split", lambda batch: [batch])
    backward = treated.apply("update.backward", lambda loss: loss.backward())
    clip = treated.apply("update.clip", lambda: None)
    apply = treated.apply("update.apply", plain_apply)
    zero = treated.apply("update.zero", optimizer.zero_grad)

    def finish(loss: Any) -> bool:
        clip()
        performed: bool = apply()
        zero()
        source.loss = loss
        return performed

    def whole(batch: Any) -> bool:
        loss = forward(batch)
        backward(loss)
        return finish(loss.detach())

    def in_parts(batch: Any) -> bool:
        *early, last = parts = split(batch)

        def part_of(part: Any) -> Any:
            loss = forward(part) / len(parts)
            backward(loss)
            return loss.detach()

        total = 0.0
        for part in early:
            with bench.without_sync():
                total += part_of(part)
        return finish(total + part_of(last))

    return Step(_fetch(bench, source), in_parts if treated.fills("update.split") else whole)


def infer_step(bench: TorchBench, treated: Treated, source: Source) -> Step:
    """Fetch and predict, with the arm's forward stage applied."""
    predict, model = bench.workload.predict, bench.model
    assert predict is not None
    bench.forward = treated.apply("forward", lambda batch: predict(model, batch))
    forward = bench.forward

    def compute(batch: Any) -> bool:
        with torch.inference_mode():
            forward(batch)
        return True

    return Step(_fetch(bench, source), compute)


def load_step(bench: TorchBench, source: Source) -> Step:
    """Fetch a batch, which is all there is to do without a model."""
    return Step(_fetch(bench, source), lambda batch: True)


def _fetch(bench: TorchBench, source: Source) -> Callable[[], Any]:
    """() -> the next batch, which is left where proofs find it."""

    def fetch() -> Any:
        batch = bench.latest_batch = source.next()
        return batch

    return fetch


def counted(step: Callable[[], bool], counters: Counters) -> Callable[[], None]:
    """The step, with its updates counted as performed or skipped."""

    def run() -> None:
        if step():
            counters.steps_performed += 1
        else:
            counters.steps_skipped += 1

    return run
