"""Reads torch's runtime: device clock and memory peaks, compile state, and the flags that leak between arms."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from harness.child.rig import nothing


@dataclass(frozen=True)
class DeviceProbe:
    """Synchronisation, elapsed time and memory of one device."""

    synchronise: Callable[[], None]
    mark: Callable[[], Callable[[], int | None]]
    reset_peaks: Callable[[], None]
    peaks: Callable[[], dict[str, int | None]]
    reserved_bytes: Callable[[], int | None]


def device_probe(device: torch.device) -> DeviceProbe:
    """The probe of a device; on a CPU there is nothing to wait for and no separate memory."""
    if device.type == "cpu":
        return DeviceProbe(nothing, lambda: lambda: None, nothing, dict, lambda: None)

    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    retries_before = 0

    def mark() -> Callable[[], int]:
        first.record()
        return lambda: int(first.elapsed_time(last) * 1e6)

    def synchronise() -> None:
        last.record()
        torch.cuda.synchronize(device)

    def reset_peaks() -> None:
        nonlocal retries_before
        retries_before = alloc_retries(device)
        torch.cuda.reset_peak_memory_stats(device)

    return DeviceProbe(
        synchronise=synchronise,
        mark=mark,
        reset_peaks=reset_peaks,
        peaks=lambda: {
            "peak_allocated_bytes": torch.cuda.max_memory_allocated(device),
            "peak_reserved_bytes": torch.cuda.max_memory_reserved(device),
            "peak_device_bytes": process_device_bytes(device),
            "alloc_retries": alloc_retries(device) - retries_before,
        },
        reserved_bytes=lambda: torch.cuda.memory_reserved(device),
    )


def alloc_retries(device: torch.device) -> int:
    """Allocations so far that failed at first, and went through once cached memory had been given back."""
    return int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0))


def process_device_bytes(device: torch.device) -> int | None:
    """This process's memory on the device by NVML, context and libraries included; null where NVML cannot tell.

    The device is found by UUID, since NVML ignores CUDA_VISIBLE_DEVICES.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
        for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
            if process.pid == os.getpid():
                return process.usedGpuMemory
    except pynvml.NVMLError:
        return None
    return None


def compile_counters() -> dict[str, int]:
    """What torch.compile has done so far in this process; all zero while it was never imported."""
    counted = {"frames": 0, "graph_breaks": 0, "recompiles": 0, "cudagraph_skips": 0}
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return counted
    counters = utils.counters
    counted["frames"] = counters["frames"].get("ok", 0)
    counted["graph_breaks"] = sum(counters["graph_break"].values())
    counted["cudagraph_skips"] = counters["inductor"].get("cudagraph_skips", 0)
    convert = sys.modules.get("torch._dynamo.convert_frame")
    if convert is not None:
        counted["recompiles"] = sum(count - 1 for count in convert.FRAME_COMPILE_COUNTER.values())
    return counted


def compile_ns() -> int | None:
    """Time dynamo and the backend compiler report for this process; null where nothing was compiled."""
    dynamo = sys.modules.get("torch._dynamo.utils")  # importing it takes seconds, which an eager arm must not pay
    if dynamo is None:
        return None
    seconds = sum(dynamo.compilation_time_metrics.get("_compile.compile_inner", []))
    return int(seconds * 1e9) or None


def forbid_recompiles() -> None:
    """From here on a recompilation is an error rather than a silent fall back to eager."""
    torch.compiler.set_stance("fail_on_recompile")


def runtime_facts(device: torch.device) -> dict[str, Any]:
    """The flags and libraries in force, read back: equal between arms unless a treatment declares otherwise."""
    facts = {
        "torch.version": torch.__version__,
        "torch.git": torch.version.git_version,
        "torch.cuda": torch.version.cuda,
        "threads.intra": torch.get_num_threads(),
        "threads.inter": torch.get_num_interop_threads(),
        "cpu.capability": torch.backends.cpu.get_cpu_capability(),
        "algorithms.deterministic": torch.are_deterministic_algorithms_enabled(),
        "autograd.anomaly": torch.is_anomaly_enabled(),
        "default_dtype": str(torch.get_default_dtype()),
        "mkldnn.enabled": torch.backends.mkldnn.enabled,
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "precision.global": torch.backends.fp32_precision,  # type: ignore[attr-defined]
        "precision.cuda.matmul": torch.backends.cuda.matmul.fp32_precision,
        "precision.cudnn.conv": torch.backends.cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
        "precision.mkldnn.matmul": torch.backends.mkldnn.matmul.fp32_precision,  # type: ignore[attr-defined]
        "sdpa.flash": torch.backends.cuda.flash_sdp_enabled(),
        "sdpa.efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "sdpa.math": torch.backends.cuda.math_sdp_enabled(),
    }
    if device.type == "cuda":
        facts["cudnn.version"] = torch.backends.cudnn.version()
        facts["nccl.version"] = ".".join(map(str, torch.cuda.nccl.version()))
        facts["allocator"] = torch.cuda.get_allocator_backend()
    return facts
