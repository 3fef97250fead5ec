"""Are the packages that trials need installed, and new enough?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.doctor import Finding

if TYPE_CHECKING:
    from harness.machine import Machine

NEEDED = ("torch", "torchvision", "timm", "transformers")


def check(machine: Machine) -> Finding:
    """Read the installed versions, without importing anything."""
    versions = {name: machine.package_version(name) for name in NEEDED}
    missing = [name for name, version in versions.items() if version is None]
    text = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    if "torch" in missing:
        return Finding("error", text, "run `make setup`")
    return Finding("warning" if missing else "ok", text, "run `make setup`" if missing else "")
