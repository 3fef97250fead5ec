"""The software of this machine: interpreter, distributions, torch's build, system, commands and shared libraries."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness import nvml
from harness.machine.reading import Kind, file_fact, known_fact, read_text, value_fact
from harness.record import Fact

ENVIRONMENT_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MALLOC_ARENA_MAX",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_P2P_DISABLE",
    "NCCL_PROTO",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT",
    "TORCH_LOGS",
)
"""The only environment variables that are ever stored; none of them holds a secret, a name or a path."""

CUDA_PACKAGES = re.compile(r"torch|triton|nvidia-(?!ml-py).+|cuda-.+")
"""Distributions whose versions are part of base_env_id."""

LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")


def normalised(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_packages(search_path: Sequence[str]) -> dict[str, str]:
    """Versions by name, from the names of the metadata folders; the first on the path counts, as for import."""
    found: dict[str, str] = {}
    for folder in search_path:
        try:
            names = [path.name for path in Path(folder or ".").iterdir()]
        except OSError:
            continue
        for name in names:
            if match := re.fullmatch(r"(.+?)-([^-]+)(?:-.*)?\.(?:dist|egg)-info", name):
                found.setdefault(normalised(match[1]), match[2])
    return dict(sorted(found.items()))


def package_fact(name: str, version: str) -> Fact:
    """An installed distribution; torch, Triton and the CUDA libraries are part of the environment's identity."""
    kind: Kind = "identity" if CUDA_PACKAGES.fullmatch(name) else "context"
    return Fact(path=f"package.{name}", value=version, source="installed distributions", kind=kind)


def python_facts() -> Iterator[Fact]:
    """The interpreter, which is the child's too unless a treatment names another."""
    yield value_fact("python.version", platform.python_version(), "interpreter", kind="identity")
    yield value_fact("python.implementation", platform.python_implementation(), "interpreter", kind="identity")
    yield value_fact("python.compiler", platform.python_compiler(), "interpreter")


def torch_build_facts() -> Iterator[Fact]:
    """The build of torch, read from its version.py without importing it."""
    spec = importlib.util.find_spec("torch")
    text, state = read_text(Path(spec.origin).parent / "version.py") if spec and spec.origin else (None, "absent")
    for name, pattern in (
        ("version", r"__version__\s*=\s*'([^']+)'"),
        ("cuda", r"cuda\b.*=\s*'([^']+)'"),
        ("git", r"git_version\s*=\s*'([^']+)'"),
    ):
        match = re.search(pattern, text or "")
        found: nvml.State = "ok" if match else "absent" if state == "ok" else state
        value = match[1] if match else None
        yield Fact(path=f"torch.{name}", value=value, source="torch/version.py", state=found, kind="identity")


def variable_facts(environment: Mapping[str, str]) -> Iterator[Fact]:
    """The environment variables of the allow-list."""
    for name in ENVIRONMENT_VARIABLES:
        yield known_fact(f"variable.{name}", environment.get(name), "environment")


def system_facts(root: Path) -> Iterator[Fact]:
    """Kernel, distribution, C library and clock; never a host or user name."""
    yield value_fact("system.kernel", platform.release(), "uname")
    yield value_fact("system.architecture", platform.machine(), "uname")
    release = re.search(r'^PRETTY_NAME="?([^"\n]+)', read_text(root / "etc/os-release")[0] or "", re.MULTILINE)
    yield value_fact("system.distribution", release[1] if release else None, "/etc/os-release")
    yield value_fact("system.libc", " ".join(platform.libc_ver()), "interpreter")
    yield file_fact("system.clock_source", root / "sys/devices/system/clocksource/clocksource0/current_clocksource")


def has_command(name: str) -> bool:
    """Whether a program of this name would be found."""
    return shutil.which(name) is not None


@functools.cache
def find_library(name: str) -> str | None:
    """The path of a shared object that the dynamic loader would find by this name, or None."""
    return next((path for path in _library_candidates(name) if Path(path).exists()), None)


def _library_candidates(name: str) -> Iterator[str]:
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        yield f"{folder}/{name}"
    try:
        cache = Path("/etc/ld.so.cache").read_bytes()
    except OSError:
        cache = b""
    for match in re.finditer(rb"\0(/[^\0]*/" + re.escape(name.encode()) + rb")(?=\0)", cache):
        yield match[1].decode()
    architecture = f"{platform.machine()}-linux-gnu"
    for folder in (*LIBRARY_FOLDERS, f"/lib/{architecture}", f"/usr/lib/{architecture}", f"{sys.prefix}/lib"):
        yield f"{folder}/{name}"
