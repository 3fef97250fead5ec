"""Prints constraints.txt: the installed versions of everything this project asks for, directly or through others.

Run it in an environment with every extra, whose tests pass: `.venv/bin/python .ci/pin.py > constraints.txt`.
"""

from __future__ import annotations

import importlib.metadata
import re

from packaging.requirements import Requirement

EXACTLY_PINNED_BY_TORCH = re.compile(r"nvidia-(?!ml-py)|cuda-|triton")
"""The CUDA wheels: torch names one version of each itself, and which ones depends on the platform."""


def main() -> None:
    """Print one line a distribution, by name."""
    print("# Versions that the Makefile installs. Made by .ci/pin.py; pyproject.toml says what is allowed.")
    for name in sorted(installed_below("harness", {"test", "dev", "loaders", "runtimes"})):
        print(f"{name}=={importlib.metadata.version(name)}")


def installed_below(root: str, extras: set[str]) -> set[str]:
    """Every distribution that the root needs here, the root itself left out."""
    found: set[str] = set()
    waiting = [(root, extras)]
    while waiting:
        name, wanted = waiting.pop()
        for line in importlib.metadata.requires(name) or []:
            requirement = Requirement(line)
            needed = normalised(requirement.name)
            applies = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            )
            if applies and needed not in found and not EXACTLY_PINNED_BY_TORCH.match(needed):
                found.add(needed)
                waiting.append((needed, set(requirement.extras)))
    return found


def normalised(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
