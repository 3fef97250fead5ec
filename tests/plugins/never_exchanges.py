"""A treatment that breaks data parallelism: ranks go on with the gradients of their own data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.spec import Bench, NoEffect, Proof, Trace, Treatment


def without_exchange(backward: Callable[[Any], None], bench: Bench) -> Callable[[Any], None]:
    def alone(loss: Any) -> None:
        with bench.without_sync():
            backward(loss)

    return alone


def forward_without_exchange(forward: Callable[[Any], Any], bench: Bench) -> Callable[[Any], Any]:
    def alone(batch: Any) -> Any:
        with bench.without_sync():
            return forward(batch)

    return alone


def after(bench: Bench, snapshot: Any, trace: Trace) -> dict[str, Any]:
    if trace.collectives():
        raise NoEffect("the ranks exchange something")
    return {}


TREATMENT = Treatment(
    name="never_exchanges",
    summary="lets ranks train apart",
    sources=("https://example.org",),
    proof=Proof(after=after),
    hooks={"update.backward": without_exchange, "forward": forward_without_exchange},
)
