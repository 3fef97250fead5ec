"""What the treatments share that run a model through another runtime: exported at its first batch, outputs compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.spec import NoEffect

LARGEST_DIFFERENCE = 0.05
"""Of the largest output, on the first batch: beyond it, it is not the same model."""


class Exported:
    """A callable in the model's place: the first batch is what it is exported with."""

    def __init__(self, model: Any, export: Callable[[Any, Any], Callable[[Any], Any]]) -> None:
        self.model, self.export = model, export
        self.run: Callable[[Any], Any] | None = None
        self.calls = 0
        self.difference = float("nan")

    def parameters(self) -> Any:
        """Those of the model that was exported."""
        return self.model.parameters()

    def __call__(self, images: Any) -> Any:
        if self.run is None:
            self.run = self._exported(images)
        self.calls += 1
        return self.run(images)

    def _exported(self, images: Any) -> Callable[[Any], Any]:
        """The other runtime's form of the model, and how far its first outputs are from the model's."""
        import torch

        with torch.inference_mode(False), torch.no_grad():
            example = images.clone()
            run = self.export(self.model, example)
            expected, found = self.model(example), run(example)
            self.difference = float((found - expected).abs().max() / expected.abs().max())
        return run


def calls_so_far(bench: Any) -> int:
    """How often the exported model was called; what a proof notes after the warm-up."""
    return int(getattr(bench.model, "calls", 0))


def close_outputs(bench: Any) -> float:
    """How far the first outputs were from the model's, relative to the largest; refuses what is another model."""
    if not isinstance(bench.model, Exported):
        raise NoEffect("the model was not exported")
    difference = bench.model.difference
    if not difference < LARGEST_DIFFERENCE:
        raise NoEffect(f"the exported model's outputs differ by {difference:.1%} of the largest")
    return difference


def ran_elsewhere(bench: Any, snapshot: int, trace: Any) -> dict[str, Any]:
    """That calls went to the exported model since the warm-up, and torch itself multiplied nothing."""
    difference, calls = close_outputs(bench), calls_so_far(bench) - snapshot
    products = len(trace.matmuls()) + len(trace.convolutions())
    if calls <= 0 or products:
        raise NoEffect(f"the export was called {calls} times; torch computed {products} products in the profiled step")
    return {"calls": calls, "largest_relative_difference": difference}
