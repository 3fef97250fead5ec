"""The harness's own floor: a step that does nothing, so whatever is measured is the harness itself."""

from __future__ import annotations

from harness.spec import PlainBench, Scalar, Workload


def plain(mode: str, seed: int, **params: Scalar) -> PlainBench:
    """Give a step that returns at once."""
    return PlainBench(step=_nothing, items_per_step=1)


def _nothing() -> None:
    pass


WORKLOAD = Workload(
    name="noop",
    summary="a step that does nothing: the harness's own floor",
    sources=(),
    unit="steps",
    traits=frozenset(),
    presets={"tiny": {}, "small": {}, "full": {}},
    devices=("cpu",),
    plain=plain,
)
