"""Describes this machine without importing torch: what a plan may rely on, and every fact that results hang on.

A fact that cannot be read has a state (unsupported, denied, absent, error), never a made-up value.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness import nvml
from harness.identity import facts_id
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

CPU_FEATURES = (
    "avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8", "sve", "bf16",
)  # fmt: skip
"""The instruction sets that decide what a data type costs."""

LIBRARY_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")


# ------------------------------------------------------------------------------------------------ commands, libraries


@functools.cache
def _find_library(name: str) -> str | None:
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


def _has_command(name: str) -> bool:
    return shutil.which(name) is not None


# ------------------------------------------------------------------------------------------------ the machine


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU, or one MIG instance, that a child may use."""

    index: int
    """Among the visible ones, in the order of `Machine.visible_devices`."""
    name: str
    uuid: str
    memory_bytes: int | None = None
    capability: tuple[int, int] | None = None
    power_limit_mw: int | None = None
    mig: bool = False


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
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of the installed distributions, by normalised name."""
    has_command: Callable[[str], bool] = field(default=_has_command, compare=False)
    find_library: Callable[[str], str | None] = field(default=_find_library, compare=False)
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


# ------------------------------------------------------------------------------------------------ reading


Kind = Literal["identity", "hardware", "context"]


def file_fact(path: str, file: Path, *, unit: str = "", kind: Kind = "context", source: str = "") -> Fact:
    """A fact that is the whole content of a file of /proc or /sys."""
    text, state = read_text(file)
    return Fact(path=path, value=text, unit=unit, source=source or str(file), state=state, kind=kind)


def read_text(file: Path) -> tuple[str | None, nvml.State]:
    """The stripped content of a small file, or why it cannot be had."""
    try:
        return file.read_text(errors="replace").strip(), "ok"
    except (FileNotFoundError, NotADirectoryError):
        return None, "absent"
    except PermissionError:
        return None, "denied"
    except OSError as error:
        return None, "unsupported" if error.errno in (95, 22, 61) else "error"


def known_fact(path: str, value: object, source: str, *, unit: str = "") -> Fact:
    """A context fact that is there or (None) definitely not there."""
    state: nvml.State = "absent" if value is None else "ok"
    return Fact(path=path, value=None if value is None else str(value), unit=unit, source=source, state=state)


def value_fact(path: str, value: object, source: str, *, unit: str = "", kind: Kind = "context") -> Fact:
    """A fact that is known, or (None) could not be found out."""
    if value is None:
        return Fact(path=path, value=None, unit=unit, source=source, state="error", kind=kind)
    return Fact(path=path, value=str(value), unit=unit, source=source, kind=kind)


# ------------------------------------------------------------------------------------------------ software


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


# ------------------------------------------------------------------------------------------------ processor, memory


def cpu_facts(root: Path) -> Iterator[Fact]:
    """Processor, NUMA and what of them this process may use."""
    cpus, sysfs = root / "proc/cpuinfo", root / "sys/devices/system"
    text = read_text(cpus)[0] or ""
    allowed = sorted(os.sched_getaffinity(0))
    quota = cpu_quota(root)
    first = sysfs / f"cpu/cpu{allowed[0]}"
    yield value_fact("cpu.model", cpu_model(text), str(cpus), kind="hardware")
    yield value_fact("cpu.logical_cores", os.cpu_count(), "os.cpu_count", kind="hardware")
    yield value_fact("numa.nodes", count_nodes(sysfs / "node"), str(sysfs / "node"), kind="hardware")
    yield value_fact("cpu.effective_cores", effective_cores(len(allowed), quota), "affinity, cgroup", kind="identity")
    yield value_fact("cpu.allowed", ranges(allowed), "sched_getaffinity")
    yield known_fact("cgroup.cpu_quota", None if quota is None else f"{quota:g}", "cgroup", unit="cores")
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    names = set(flags[1].split()) if flags else set()
    yield value_fact("cpu.features", " ".join(name for name in CPU_FEATURES if name in names), str(cpus))
    yield value_fact("cpu.virtual", "yes" if "hypervisor" in names else "no", str(cpus))
    microcode = re.search(r"^microcode\s*:\s*(\S+)", text, re.MULTILINE)
    yield known_fact("cpu.microcode", microcode[1] if microcode else None, str(cpus))
    yield file_fact("cpu.smt", sysfs / "cpu/smt/control")
    yield file_fact("cpu.governor", first / "cpufreq/scaling_governor")
    yield file_fact("cpu.maximum_frequency", first / "cpufreq/cpuinfo_max_freq", unit="kHz")
    yield file_fact("cpu.no_turbo", sysfs / "cpu/intel_pstate/no_turbo")
    yield file_fact("cpu.boost", sysfs / "cpu/cpufreq/boost")


def cpu_model(cpuinfo: str) -> str | None:
    """The processor's name; on machines that give none (ARM), its implementer and part numbers."""
    if match := re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE):
        return " ".join(match[1].split())
    words = ("implementer", "part", "variant")
    codes = [re.search(rf"^CPU {word}\s*:\s*(\S+)", cpuinfo, re.MULTILINE) for word in words]
    return " ".join(match[1] for match in codes if match) or None


def effective_cores(allowed: int, quota: float | None) -> int:
    """How many cores defaults may use: the affinity mask, cut by the cgroup's quota, at least 1."""
    return max(1, allowed if quota is None else min(allowed, int(quota)))


def cpu_quota(root: Path) -> float | None:
    """The tightest CPU quota of the cgroups above this process, in cores; None if there is none."""
    quotas = []
    for folder in cgroup_folders(root, "cpu"):
        if (folder / "cpu.max").exists():
            limit, _, period = (read_text(folder / "cpu.max")[0] or "max").partition(" ")
        else:
            limit = read_text(folder / "cpu.cfs_quota_us")[0] or "max"
            period = read_text(folder / "cpu.cfs_period_us")[0] or "100000"
        if limit not in ("max", "-1"):
            quotas.append(int(limit) / int(period or "100000"))
    return min(quotas, default=None)


def memory_limit(root: Path) -> int | None:
    """The tightest memory limit of the cgroups above this process, in bytes; None if there is none."""
    texts = [
        read_text(folder / name)[0]
        for folder in cgroup_folders(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    limits = [int(text) for text in texts if text and text != "max"]
    return min((limit for limit in limits if limit < 1 << 60), default=None)


def cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's cgroup and of those above it, for versions 1 and 2."""
    for line in (read_text(root / "proc/self/cgroup")[0] or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" or controller in controllers.split(","):
            for mount in (f"sys/fs/cgroup/{controller}", "sys/fs/cgroup") if controllers else ("sys/fs/cgroup",):
                folder = root / mount
                parts = [part for part in path.split("/") if part not in ("", "..")]
                yield from (folder.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def memory_facts(root: Path) -> Iterator[Fact]:
    """Memory, its limits and how the kernel hands it out."""
    text = read_text(root / "proc/meminfo")[0] or ""
    total = re.search(r"^MemTotal:\s*(\d+) kB", text, re.MULTILINE)
    yield value_fact("memory.total", int(total[1]) * 1024 if total else None, "/proc/meminfo", unit="bytes")
    yield known_fact("cgroup.memory_limit", memory_limit(root), "cgroup", unit="bytes")
    yield file_fact("memory.transparent_huge_pages", root / "sys/kernel/mm/transparent_hugepage/enabled")
    yield file_fact("memory.swappiness", root / "proc/sys/vm/swappiness")
    yield file_fact("numa.balancing", root / "proc/sys/kernel/numa_balancing")


def usable_memory(values: Mapping[str, str | None]) -> int | None:
    """The machine's memory or its cgroup's limit, whichever is less, in bytes."""
    known = [int(text) for name in ("memory.total", "cgroup.memory_limit") if (text := values[name])]
    return min(known, default=None)


def count_nodes(folder: Path) -> int:
    """How many NUMA nodes the kernel shows, at least 1."""
    try:
        return max(1, sum(bool(re.fullmatch(r"node\d+", path.name)) for path in folder.iterdir()))
    except OSError:
        return 1  # a kernel without NUMA


def ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5] as "0-2,5"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def system_facts(root: Path) -> Iterator[Fact]:
    """Kernel, distribution, C library and clock; never a host or user name."""
    yield value_fact("system.kernel", platform.release(), "uname")
    yield value_fact("system.architecture", platform.machine(), "uname")
    release = re.search(r'^PRETTY_NAME="?([^"\n]+)', read_text(root / "etc/os-release")[0] or "", re.MULTILINE)
    yield value_fact("system.distribution", release[1] if release else None, "/etc/os-release")
    yield value_fact("system.libc", " ".join(platform.libc_ver()), "interpreter")
    yield file_fact("system.clock_source", root / "sys/devices/system/clocksource/clocksource0/current_clocksource")


def machine_name(root: Path, gpu_uuids: Iterable[str]) -> str:
    """The keyed hash that tells this machine from others and says nothing else about it.

    The operating system's machine id (where an image has none, the id of this boot) and the GPUs, since machines made
    from one image may share the first.
    """
    found = read_text(root / "etc/machine-id")[0] or read_text(root / "proc/sys/kernel/random/boot_id")[0] or ""
    message = "\n".join([found, *sorted(gpu_uuids)])
    return "m" + hmac.new(b"controlled trial harness: machine id", message.encode(), hashlib.sha256).hexdigest()


# ------------------------------------------------------------------------------------------------ GPUs


def look_at_gpus(environment: Mapping[str, str]) -> tuple[tuple[Gpu, ...], list[Fact], list[str]]:
    """The GPUs a child may use, all facts about them, and the UUIDs of all physical ones."""
    api, driver = nvml.open_nvml()
    facts = [Fact(path="gpu.driver", value=driver.value, source="nvml", state=driver.state, kind="identity")]
    if api is None:
        return (), [*facts, Fact(path="gpu.count", value="0", source="nvml", kind="hardware")], []
    cuda = api.ask("SystemGetCudaDriverVersion_v2")
    version = f"{cuda.value // 1000}.{cuda.value % 1000 // 10}" if cuda.state == "ok" else None
    facts.append(Fact(path="gpu.driver_cuda", value=version, source="nvml", state=cuda.state))
    devices = list(usable_devices(api))
    chosen = visible(devices, environment.get("CUDA_VISIBLE_DEVICES"))
    facts.append(Fact(path="gpu.count", value=str(len(chosen)), source="nvml", kind="hardware"))
    facts.append(order_fact(devices, environment))
    gpus = []
    for index, device in enumerate(chosen):
        gpu, more = look_at_gpu(api, index, device)
        gpus.append(gpu)
        facts += more
    return tuple(gpus), facts, sorted({device.parent_uuid for device in devices})


@dataclass(frozen=True)
class Device:
    """An NVML handle with what CUDA_VISIBLE_DEVICES may call it."""

    handle: Any
    uuid: str
    name: str
    parent: Any
    """Handle of the physical GPU; the same one where this is no MIG instance."""
    parent_uuid: str
    physical_index: int
    is_mig: bool


def usable_devices(api: nvml.Nvml) -> Iterator[Device]:
    """Physical GPUs, and in place of each one in MIG mode its instances."""
    for physical_index, handle in enumerate(api.devices()):
        uuid = str(api.ask("DeviceGetUUID", handle).value)
        name = str(api.ask("DeviceGetName", handle).value)
        mode = api.ask("DeviceGetMigMode", handle)
        if mode.state != "ok" or not mode.value[0]:
            yield Device(handle, uuid, name, handle, uuid, physical_index, is_mig=False)
            continue
        for instance in range(api.ask("DeviceGetMaxMigDeviceCount", handle).value or 0):
            found = api.ask("DeviceGetMigDeviceHandleByIndex", handle, instance)
            if found.state == "ok":
                mig_uuid = str(api.ask("DeviceGetUUID", found.value).value)
                mig_name = str(api.ask("DeviceGetName", found.value).value or name)
                yield Device(found.value, mig_uuid, mig_name, handle, uuid, physical_index, is_mig=True)


def visible(devices: Sequence[Device], variable: str | None) -> list[Device]:
    """What CUDA would see. CUDA_VISIBLE_DEVICES holds indexes, UUIDs or their beginnings; an unknown entry ends it."""
    if variable is None:
        return list(devices)
    chosen: list[Device] = []
    for entry in variable.split(","):
        found = _named(devices, entry.strip())
        if found is None or found in chosen:
            break
        chosen.append(found)
    return chosen


def _named(devices: Sequence[Device], entry: str) -> Device | None:
    if re.fullmatch(r"\d+", entry):
        return next((device for device in devices if device.physical_index == int(entry)), None)
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    found = [device for device in devices if device.uuid.startswith(entry)]
    if not found:  # a GPU in MIG mode stands for its first instance
        found = [device for device in devices if device.parent_uuid.startswith(entry)][:1]
    return found[0] if len(found) == 1 else None


def order_fact(devices: Sequence[Device], environment: Mapping[str, str]) -> Fact:
    """Whether an index means the same GPU for CUDA and for the driver: it need not where models differ."""
    indexed = bool(re.search(r"(^|,)\s*\d", environment.get("CUDA_VISIBLE_DEVICES", "")))
    mixed = len({device.name for device in devices}) > 1
    ambiguous = indexed and mixed and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
    source = "CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER"
    return Fact(
        path="gpu.order", value=None if ambiguous else "by bus", source=source, state="error" if ambiguous else "ok"
    )


def look_at_gpu(api: nvml.Nvml, index: int, device: Device) -> tuple[Gpu, list[Fact]]:
    """One GPU and its facts; what an instance shares with its card is asked of the card."""
    own, card = device.handle, device.parent
    memory = _then(api.ask("DeviceGetMemoryInfo", own), lambda info: int(info.total))
    capability = api.ask("DeviceGetCudaComputeCapability", card)
    power = api.ask("DeviceGetPowerManagementLimit", card)
    hardware: dict[str, tuple[nvml.Answer, str]] = {
        "name": (nvml.Answer(device.name, "ok"), ""),
        "memory": (memory, "bytes"),
        "capability": (_then(capability, lambda pair: f"{pair[0]}.{pair[1]}"), ""),
        "power_limit": (power, "mW"),
        "mig": (nvml.Answer("on" if device.is_mig else "off", "ok"), ""),
    }
    context: dict[str, tuple[nvml.Answer, str]] = {
        "ecc": (_then(api.ask("DeviceGetEccMode", card), lambda modes: "on" if modes[0] else "off"), ""),
        "persistence": (_then(api.ask("DeviceGetPersistenceMode", card), lambda mode: "on" if mode else "off"), ""),
        "vbios": (api.ask("DeviceGetVbiosVersion", card), ""),
        "pcie_generation_maximum": (api.ask("DeviceGetMaxPcieLinkGeneration", card), ""),
        "pcie_width_maximum": (api.ask("DeviceGetMaxPcieLinkWidth", card), "lanes"),
        "pcie_generation": (api.ask("DeviceGetCurrPcieLinkGeneration", card), ""),
        "pcie_width": (api.ask("DeviceGetCurrPcieLinkWidth", card), "lanes"),
        "sm_clock_maximum": (api.ask("DeviceGetMaxClockInfo", card, api.api.NVML_CLOCK_SM), "MHz"),
        "memory_clock_maximum": (api.ask("DeviceGetMaxClockInfo", card, api.api.NVML_CLOCK_MEM), "MHz"),
        "power_limit_default": (api.ask("DeviceGetPowerManagementDefaultLimit", card), "mW"),
        "compute_mode": (api.ask("DeviceGetComputeMode", card), ""),
    }
    gpu = Gpu(
        index=index, name=device.name, uuid=device.uuid, memory_bytes=memory.value,
        capability=tuple(capability.value) if capability.state == "ok" else None,
        power_limit_mw=power.value, mig=device.is_mig,
    )  # fmt: skip
    facts = [_gpu_fact(index, name, answer, unit, "hardware") for name, (answer, unit) in hardware.items()]
    facts += [_gpu_fact(index, name, answer, unit, "context") for name, (answer, unit) in context.items()]
    return gpu, facts


def _then(answer: nvml.Answer, change: Callable[[Any], Any]) -> nvml.Answer:
    return nvml.Answer(change(answer.value), "ok") if answer.state == "ok" else answer


def _gpu_fact(index: int, name: str, answer: nvml.Answer, unit: str, kind: Kind) -> Fact:
    value = str(answer.value) if answer.state == "ok" else None
    return Fact(path=f"gpu.{index}.{name}", value=value, unit=unit, source="nvml", state=answer.state, kind=kind)
