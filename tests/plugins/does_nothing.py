"""A treatment that claims to act and does nothing: its proof must say so."""

from __future__ import annotations

from typing import Any

from harness.spec import Bench, NoEffect, Proof, Trace, Treatment


def after(bench: Bench, snapshot: Any, trace: Trace, **params: Any) -> dict[str, Any]:
    raise NoEffect("nothing in the runtime changed")


TREATMENT = Treatment(
    name="does_nothing",
    summary="does nothing",
    sources=("https://example.org",),
    proof=Proof(after=after),
    hooks={"between": lambda step, bench, **params: step},
)
