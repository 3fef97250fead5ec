"""Runs parts of a batch on several CUDA streams, so that the small kernels of one may fill what another leaves free.

Helps where a part's kernels are far from filling the device. Large kernels take turns all the same, and each part
brings launches of its own. With sound=false it is the form often shown: parts go round the streams with nothing that
makes them wait for one another, so that they race on the gradients, and the optimizer never steps. That one is here to
be rejected by the numerics check.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

from harness.spec import NoEffect, Numerics, Param, Proof, Requires, Treatment
from harness.treatments._splitting import pieces


class Streams:
    """The streams, which part of a batch has its turn, and who waits for whom. Without CUDA there are none."""

    def __init__(self, device: Any, count: int, sound: bool) -> None:
        import torch

        self.cuda = torch.cuda if torch.device(device).type == "cuda" else None
        self.streams = [self.cuda.Stream(device) for _ in range(count)] if self.cuda else []
        self.sound, self.turns = sound, itertools.cycle(range(count))
        self.turn = 0

    def start(self) -> None:
        """A new batch: every stream may begin when what came before has ended on the device."""
        self.turns = itertools.cycle(range(max(1, len(self.streams))))
        for stream in self.streams:
            self._wait(stream, self._current())

    def next_forward(self) -> Any:
        """The context of the next part's forward pass."""
        self.turn = next(self.turns)
        return self._on(self.turn)

    def forward_done(self) -> None:
        """The loss is ready for whoever asks for it outside."""
        if self.streams:
            self._wait(self._current(), self.streams[self.turn])

    def backward(self) -> Any:
        """The context of the same part's backward pass: gradients are added up in turn."""
        if self.streams and self.turn:
            self._wait(self.streams[self.turn], self.streams[self.turn - 1])
        return self._on(self.turn)

    def finish(self) -> None:
        """The last stream, which waited for all others, is waited for."""
        if self.streams:
            self._wait(self._current(), self.streams[self.turn])

    def _on(self, index: int) -> Any:
        return self.cuda.stream(self.streams[index]) if self.cuda else contextlib.nullcontext()

    def _current(self) -> Any:
        return self.cuda.current_stream() if self.cuda else None

    def _wait(self, waiting: Any, other: Any) -> None:
        if self.sound:
            waiting.wait_stream(other)


def split(whole: Any, bench: Any, n: int, sound: bool) -> Any:
    """batch -> a part for each stream."""
    streams = bench.kept["multi_stream"] = Streams(bench.device, n, sound)

    def parts(batch: Any) -> list[Any]:
        streams.start()
        return pieces(batch, n)

    return parts


def forward(run: Any, bench: Any, n: int, sound: bool) -> Any:
    """(batch -> loss) on the stream whose turn it is."""

    def on_stream(part: Any) -> Any:
        streams = bench.kept["multi_stream"]
        with streams.next_forward():
            loss = run(part)
        streams.forward_done()
        return loss

    return on_stream


def backward(run: Any, bench: Any, n: int, sound: bool) -> Any:
    """(loss -> None) on the stream of its forward pass."""

    def on_stream(loss: Any) -> None:
        streams = bench.kept["multi_stream"]
        with streams.backward():
            run(loss)

    return on_stream


def apply(run: Any, bench: Any, n: int, sound: bool) -> Any:
    """Step the optimizer when all parts are through; in the unsound form there is no such step."""

    def step() -> bool:
        bench.kept["multi_stream"].finish()
        return run() if sound else True

    return step


def proof(bench: Any, snapshot: Any, trace: Any, n: int, sound: bool) -> dict[str, Any]:
    """Kernels ran on so many streams in the profiled step, copies not counted."""
    streams = {kernel.stream for kernel in trace.kernels if not kernel.name.startswith(("Memcpy", "Memset"))}
    if len(streams) < n:
        raise NoEffect(f"kernels ran on {len(streams)} streams, not on {n}")
    return {"streams": len(streams), "kernels": len(trace.kernels)}


def numerics(traits: frozenset[str], n: int, sound: bool) -> Numerics:
    """BatchNorm sees smaller batches, padded parts are weighted differently; what the unsound form is said to keep."""
    return "changes" if sound and traits & {"batchnorm", "padding"} else "close"


TREATMENT = Treatment(
    name="multi_stream",
    summary="parts of a batch on several CUDA streams",
    sources=("https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams",),
    params={
        "n": Param(4, "streams", kind="int", minimum=2),
        "sound": Param(True, "whether the streams wait for one another, and the optimizer steps", kind="bool"),
    },
    requires=Requires(modes=("train",), devices=("cuda",)),
    hooks={"update.split": split, "forward": forward, "update.backward": backward, "update.apply": apply},
    proof=Proof(after=proof),
    changes=("micro_batches",),
    addresses=("launch", "compute"),
    numerics_for=numerics,
)
