"""What the treatments share that have the dynamic loader put a library before all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.spec import NoEffect, Proof


def preload(*libraries: str) -> Callable[..., Any]:
    """The process stage's hook that preloads the first of these libraries that is installed."""

    def process(change: Any, machine: Any) -> Any:
        return change.with_env("LD_PRELOAD", next(filter(machine.has_library, libraries)))

    return process


def proof_of(name: str) -> Proof:
    """That a library of this name is mapped into the process."""

    def after(bench: Any, snapshot: Any, trace: Any) -> dict[str, Any]:
        mapped = [path for path in bench.mapped_libraries() if name in path]
        if not mapped:
            raise NoEffect(f"no library named {name} is mapped into the process")
        return {"library": mapped[0].rpartition("/")[2]}

    return Proof(after=after)
