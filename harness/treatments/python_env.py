"""Runs the arm under another Python environment: another torch, another BLAS under numpy, another interpreter.

Tells what an upgrade or another build is worth. The environment must have what a trial needs, numpy, msgspec, psutil
and threadpoolctl, and torch and the model libraries for workloads with a model; harness itself is taken from here.
Nothing else about the two arms is the same for sure: what differs is in the evidence.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment


def process(change: Any, machine: Any, path: str) -> Any:
    """Start the child with this interpreter."""
    return change.with_python(shutil.which(path) or path)


def proof(bench: Any, snapshot: Any, trace: Any, path: str) -> dict[str, Any]:
    """This process runs the interpreter of that environment; the libraries that it loaded are told."""
    asked, running = Path(shutil.which(path) or path).parent, Path(sys.executable).parent
    if not running.exists() or not asked.exists() or not asked.samefile(running):
        raise NoEffect(f"the process runs the Python in {running}, not the one in {asked}")
    return {"python": sys.version.split()[0], **_versions(), "math_libraries": _math_libraries()}


def _versions() -> dict[str, str]:
    return {
        f"{name}_version": str(module.__version__)
        for name in ("numpy", "scipy", "torch")
        if (module := sys.modules.get(name)) is not None
    }


def _math_libraries() -> list[str]:
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    return sorted({f"{pool['internal_api']} {pool['version'] or ''}".strip() for pool in threadpool_info()})


TREATMENT = Treatment(
    name="python_env",
    summary="another Python environment",
    sources=("https://docs.python.org/3/library/venv.html",),
    params={"path": Param("python3", "the environment's interpreter, as a path or a command")},
    requires_for=lambda path: Requires(commands=(path,)),
    hooks={"process": process},
    proof=Proof(after=proof),
    occupies=("python",),
    changes=(
        "torch", "cpu.capability", "algorithms", "autograd", "default_dtype", "mkldnn", "cudnn", "precision", "sdpa",
        "threads.inter", "numpy", "scipy", "blas", "python",
    ),
    addresses=("host", "compute"),
)  # fmt: skip
