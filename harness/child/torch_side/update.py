"""One step of a torch trial: forward, backward, optimizer (train), one prediction (infer), or a batch loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness.child.rig import Counters
from harness.child.torch_side.bench import TorchBench, Treated
from harness.child.torch_side.source import Source


def train_step(bench: TorchBench, treated: Treated, source: Source, counters: Counters) -> Callable[[], None]:
    """Fetch, forward, backward and update, with the arm's forward and update stages applied."""
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

    def finish(loss: Any) -> None:
        clip()
        if apply():
            counters.steps_performed += 1
        else:
            counters.steps_skipped += 1
        zero()
        source.loss = loss

    def whole_step() -> None:
        batch = bench.latest_batch = source.next()
        loss = forward(batch)
        backward(loss)
        finish(loss.detach())

    def split_step() -> None:
        batch = bench.latest_batch = source.next()
        total = 0.0
        parts = split(batch)
        for part in parts:
            loss = forward(part) / len(parts)
            backward(loss)
            total += loss.detach()
        finish(total)

    return split_step if treated.fills("update.split") else whole_step


def infer_step(bench: TorchBench, treated: Treated, source: Source, counters: Counters) -> Callable[[], None]:
    """Fetch and predict, with the arm's forward stage applied."""
    predict, model = bench.workload.predict, bench.model
    assert predict is not None
    bench.forward = treated.apply("forward", lambda batch: predict(model, batch))
    forward = bench.forward

    def step() -> None:
        with torch.inference_mode():
            batch = bench.latest_batch = source.next()
            forward(batch)
        counters.steps_performed += 1

    return step


def load_step(bench: TorchBench, source: Source, counters: Counters) -> Callable[[], None]:
    """Fetch a batch, which is all there is to do without a model."""

    def step() -> None:
        bench.latest_batch = source.next()
        counters.steps_performed += 1

    return step
