"""One file a check: what on this machine would disturb or prevent a measurement. A check is a function -> Finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.machine import Machine


@dataclass(frozen=True)
class Finding:
    """What a check found: "ok", "warning" (numbers may suffer) or "error" (nothing can be measured)."""

    state: str
    text: str
    remedy: str = ""


class Check(Protocol):
    """One look at the machine."""

    def __call__(self, machine: Machine) -> Finding: ...


def checks() -> dict[str, Check]:
    """Every check by its file's name."""
    import importlib
    import pkgutil

    found: dict[str, Check] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        found[module.name] = importlib.import_module(f"{__name__}.{module.name}").check
    return found
