"""The GPUs that a child may use, and all that the driver says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import nvml
from harness.machine.reading import Kind
from harness.record import Fact


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
