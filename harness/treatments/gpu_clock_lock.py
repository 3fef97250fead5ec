"""Locks the GPU's clocks to a range while a trial runs, so that they do not rise and fall with heat and power.

Makes repeated measurements agree better. Costs speed where the range ends below what the GPU would reach by itself. It
changes the device for everybody: it needs root and --allow-privileged. A process of its own, which no end of the trial
takes along, unlocks the clocks again.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from harness.spec import NoEffect, Param, Proof, Requires, Treatment, UsageError

MODULE = "harness.treatments.gpu_clock_lock"
TOLERANCE_MHZ = 15
"""Clocks move in steps of about so much."""
LOAD_SECONDS = 0.2
LOCKED = "locked"


def process(change: Any, machine: Any, min: int, max: int) -> Any:
    """Have the trial started by this module, which locks the clocks around it."""
    if min > max:
        raise UsageError(f"gpu_clock_lock: min={min} is above max={max}; give them the other way round")
    uuid = machine.gpus[0].uuid if machine.gpus else ""
    return change.with_prefix(sys.executable, "-m", MODULE, uuid, str(min), str(max))


def proof(bench: Any, snapshot: Any, trace: Any, min: int, max: int) -> dict[str, Any]:
    """Under a light load, at which a free GPU runs at its highest clock, the clock is within the range."""
    import pynvml
    import torch

    pynvml.nvmlInit()
    uuid = f"GPU-{torch.cuda.get_device_properties(bench.device).uuid}"
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    highest = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)
    seen = _clocks_under_load(bench.device, lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
    return judged(seen, highest, min, max)


def judged(seen: list[int], highest: int, min: int, max: int) -> dict[str, Any]:
    """Evidence from the clocks seen, in MHz; a range that reaches the highest clock cannot be told from none."""
    if max + TOLERANCE_MHZ >= highest:
        raise NoEffect(f"a range up to {max} MHz cannot be told from no lock: the GPU reaches {highest} MHz")
    outside = [clock for clock in seen if not min - TOLERANCE_MHZ <= clock <= max + TOLERANCE_MHZ]
    if outside or not seen:
        raise NoEffect(f"the clock is at {outside[:3]} MHz under load, not between {min} and {max}")
    return {"clocks_mhz": sorted(set(seen)), "highest_mhz": highest}


def _clocks_under_load(device: Any, clock: Any) -> list[int]:
    import time

    import torch

    square = torch.ones(256, 256, device=device)
    seen = []
    end = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < end:
        for _ in range(100):
            square @ square
        seen.append(clock())
        torch.cuda.synchronize(device)
    return seen[len(seen) // 2 :]


# ------------------------------------------------------------------------------------------------ the guard


def guard(uuid: str, low: int, high: int, command: list[str]) -> int:
    """Have the clocks locked, run the command, have them unlocked; the command's exit code.

    A process of its own holds the lock. It unlocks when this one lets go of a pipe, be it because the command has ended
    or because this process was killed.
    """
    import subprocess

    ended, running = os.pipe()
    answers, answer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:  # twice, so that it is no child of what may be killed
            os.close(running)
            os.close(answers)
            hold(uuid, low, high, ended, answer)
        os._exit(0)
    os.wait()
    os.close(ended)
    os.close(answer)
    trouble = os.read(answers, 4096).decode()
    if trouble != LOCKED:
        sys.exit(f"the clocks of {uuid} could not be locked to {low}-{high} MHz: {trouble or 'no answer'}")
    child = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: child.send_signal(number))
    code = child.wait()
    os.close(running)
    os.read(answers, 1)  # ends when the other process has unlocked the clocks and is gone
    return code if code >= 0 else 128 - code


def hold(uuid: str, low: int, high: int, ended: int, answer: int) -> None:
    """Lock, say so, wait for the end of the pipe, unlock; never returns."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    handle = None
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        pynvml.nvmlDeviceSetGpuLockedClocks(handle, low, high)
        os.write(answer, LOCKED.encode())
        os.read(ended, 1)
    except BaseException as error:
        os.write(answer, f"{type(error).__name__}: {error}".encode()[:4096])
    finally:
        if handle is not None:
            pynvml.nvmlDeviceResetGpuLockedClocks(handle)
        os._exit(0)


TREATMENT = Treatment(
    name="gpu_clock_lock",
    summary="the GPU's clocks locked to a range",
    sources=("https://docs.nvidia.com/deploy/nvidia-smi/index.html",),
    params={
        "min": Param(1000, "lowest clock, MHz", kind="int", minimum=1),
        "max": Param(1800, "highest clock, MHz", kind="int", minimum=1),
    },
    requires=Requires(devices=("cuda",), root=True),
    hooks={"process": process},
    proof=Proof(after=proof),
    occupies=("clocks",),
    changes=("gpu.clocks",),
    addresses=("compute",),
    numerics=lambda traits: "identical",
)


if __name__ == "__main__":
    sys.exit(guard(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
