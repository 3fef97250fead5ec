"""Describes this machine without importing torch: what a plan may rely on, and every fact that results hang on.

A fact that cannot be read has a state (unsupported, denied, absent, error), never a made-up value. A file a kind:
processor, memory, GPUs, software, control groups.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.identity import facts_id
from harness.machine.cpu import cpu_facts
from harness.machine.gpu import Gpu, look_at_gpus
from harness.machine.memory import memory_facts, usable_memory
from harness.machine.reading import read_text
from harness.machine.software import (
    find_library,
    has_command,
    installed_packages,
    normalised,
    package_fact,
    python_facts,
    system_facts,
    torch_build_facts,
    variable_facts,
)
from harness.record import Fact

__all__ = ["Gpu", "Machine", "describe"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a plan is made against: a plain value, so that tests can make up any machine."""

    cores: int = 1
    """Effective ones: affinity and cgroup quota considered, never under 1."""
    logical_cores: int = 1
    cpu_model: str = ""
    memory_bytes: int | None = None
    """Of the machine or of its cgroup, whichever is less."""
    numa_nodes: int = 1
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    python: str = platform.python_version()
    is_root: bool = False
    allows_privileged: bool = False
    """Whether the user asked for treatments that change the machine itself."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of the installed distributions, by normalised name."""
    has_command: Callable[[str], bool] = field(default=has_command, compare=False)
    find_library: Callable[[str], str | None] = field(default=find_library, compare=False)
    """The path of a shared object that the dynamic loader finds ("libjemalloc.so.2"), or None."""
    base_env_id: str = ""
    hardware_id: str = ""
    machine_id: str = ""
    facts: tuple[Fact, ...] = ()

    def package_version(self, name: str) -> str | None:
        """The version of an installed distribution, None if it is not installed."""
        return self.packages.get(normalised(name))

    def has_package(self, name: str) -> bool:
        """Whether a distribution is installed, whatever its version."""
        return self.package_version(name) is not None

    def has_library(self, name: str) -> bool:
        return self.find_library(name) is not None

    @property
    def visible_devices(self) -> str:
        """What CUDA_VISIBLE_DEVICES must be for a child to see exactly these GPUs in this order."""
        return ",".join(gpu.uuid for gpu in self.gpus)


def describe(root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> Machine:
    """Look at this machine. `root` is where /proc and /sys are looked for."""
    environment = os.environ if environment is None else environment
    packages = installed_packages(sys.path)
    cpu, memory = cpu_facts(root), memory_facts(root)
    gpus, gpu_facts, physical_uuids = look_at_gpus(environment)
    machine_id = machine_name(root, physical_uuids)
    facts = (
        *python_facts(),
        *(package_fact(name, version) for name, version in packages.items()),
        *torch_build_facts(),
        *cpu,
        *memory,
        *system_facts(root),
        *gpu_facts,
        *variable_facts(environment),
    )
    values = {fact.path: fact.value for fact in facts}
    return Machine(
        cores=int(values["cpu.effective_cores"] or 1),
        logical_cores=int(values["cpu.logical_cores"] or 1),
        cpu_model=values["cpu.model"] or "",
        memory_bytes=usable_memory(values),
        numa_nodes=int(values["numa.nodes"] or 1),
        gpus=gpus,
        driver=values["gpu.driver"],
        is_root=os.geteuid() == 0,
        packages=packages,
        base_env_id=facts_id("e", (fact for fact in facts if fact.kind == "identity"), machine_id),
        hardware_id=facts_id("h", (fact for fact in facts if fact.kind == "hardware"), machine_id),
        machine_id=machine_id,
        facts=facts,
    )


def machine_name(root: Path, gpu_uuids: Iterable[str]) -> str:
    """The keyed hash that tells this machine from others and says nothing else about it.

    The operating system's machine id (where an image has none, the id of this boot) and the GPUs, since machines made
    from one image may share the first.
    """
    found = read_text(root / "etc/machine-id")[0] or read_text(root / "proc/sys/kernel/random/boot_id")[0] or ""
    message = "\n".join([found, *sorted(gpu_uuids)])
    return "m" + hmac.new(b"controlled trial harness: machine id", message.encode(), hashlib.sha256).hexdigest()
