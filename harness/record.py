"""What happened: outcomes, trial records, windows and measurements, as plain values, to and from JSON.

`TrialRecord` is one row of `results/trials`, `Window` one row of `results/steps`, `Sample` one row of
`results/telemetry`; `store` derives its Parquet schemas from these classes: a column is declared here, nowhere else.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Any, Literal


class Outcome(enum.StrEnum):
    """How a trial ended."""

    OK = "ok"
    OOM_DEVICE = "oom_device"
    OOM_HOST = "oom_host"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    NOT_APPLIED = "not_applied"
    NOT_APPLICABLE = "not_applicable"
    NOT_STEADY = "not_steady"
    WRONG_NUMERICS = "wrong_numerics"
    NOT_COMPARABLE = "not_comparable"
    DISTURBED = "disturbed"
    CANCELLED = "cancelled"


FAILURES = frozenset(Outcome) - {
    Outcome.OK,
    Outcome.NOT_APPLICABLE,
    Outcome.NOT_STEADY,
    Outcome.DISTURBED,
    Outcome.CANCELLED,
}
"""Outcomes that end an arm, and a command with exit code 1. An unsteady or disturbed trial costs its block: too many of
them make a verdict invalid."""

RETRIES = {Outcome.CRASHED: 1, Outcome.TIMED_OUT: 0, Outcome.DISTURBED: 3}
"""How often a trial with this outcome is run again; what is not named is never retried."""


def column(about: str, default: Any = None) -> Any:
    """A dataclass field with its description, from which docs/results.md is generated."""
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """K consecutive steps timed together, the device synchronised only at both ends."""

    trial_id: str = column("the trial it belongs to", "")
    rank: int = column("rank of the process, 0 where there is one", 0)
    window_index: int = column("order within the process, warm-up excluded", 0)
    step_count: int = column("steps in the window", 1)
    host_ns: int = column("host time of the whole window, from synchronised to synchronised", 0)
    enqueue_ns: int | None = column("host time until the last step was issued, before the final synchronisation")
    device_ns: int | None = column("time elapsed on the device between the first and the last event (spans gaps)")
    data_wait_ns: int | None = column("of host_ns, time spent waiting for the next batch")
    started_monotonic_ns: int = column("monotonic clock at its start", 0)
    compiles: int | None = column("frames compiled during the window; must be 0")
    reserved_bytes: int | None = column("allocator's reserved bytes at its end; null on a CPU")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One look at the machine from outside while a child ran."""

    trial_id: str = column("the trial it belongs to", "")
    monotonic_ns: int = column("monotonic clock", 0)
    cpu_busy_ns: int | None = column("CPU time used by the child's process tree so far")
    rss_bytes: int | None = column("resident memory of the child's process tree")
    steal_ns: int | None = column("CPU time stolen by the hypervisor so far, all cores")
    foreign_cpu_ns: int | None = column("CPU time used by everything else so far, all cores")
    cpu_frequency_mhz: int | None = column("mean current frequency of the allowed cores")
    pressure_cpu_ns: int | None = column("PSI: total time some task waited for a CPU, so far")
    gpu_utilization: float | None = column("driver's utilization, 0 to 1")
    gpu_memory_bytes: int | None = column("device memory in use, all processes")
    sm_clock_mhz: int | None = column("streaming multiprocessor clock")
    memory_clock_mhz: int | None = column("memory clock")
    power_mw: int | None = column("board power")
    energy_mj: int | None = column("board energy counter")
    sm_activity: float | None = column("multiprocessors with work since the sample before, 0 to 1; Hopper and later")
    tensor_activity: float | None = column("the same of the tensor cores")
    dram_activity: float | None = column("the same of the device memory's bandwidth")
    temperature_c: int | None = column("GPU temperature in degrees Celsius")
    throttle_bits: int | None = column("NVML's clocks-event-reasons bitmask")
    foreign_processes: int | None = column("processes on the device that are not the child's; null where unknown")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One fact of the environment, stored with its origin and whether it could be read."""

    path: str = column("dotted name, e.g. cpu.model", "")
    value: str | None = column("the value as text; null unless state is ok")
    unit: str = column("unit of the value, empty if it has none", "")
    source: str = column("where it was read, e.g. /proc/cpuinfo, nvml, torch", "")
    state: Literal["ok", "unsupported", "denied", "absent", "error"] = column("whether it could be read", "ok")
    kind: Literal["identity", "hardware", "context"] = column(
        "part of base_env_id, of hardware_id, or context", "context"
    )


@dataclass(kw_only=True, slots=True)
class TrialRecord:
    """One trial, finished or failed; or one skip (block_index null). Null means unknown or not applicable, never 0."""

    # what was asked
    trial_id: str = column("UUIDv7 of the trial", "")
    spec_id: str = column("hash of the experiment as resolved", "")
    session_id: str = column("UUIDv7 of the unbroken run that measured it", "")
    block_index: int | None = column("round it belongs to; null for skips and for prepare and numerics trials")
    position: int | None = column("place within the block, 0 first")
    cell_id: str = column("hash of workload, parameters, preset, mode, input, data, device, arm, kind and measure", "")
    code_id: str = column("hash of the sources the child imported", "")
    base_env_id: str = column("hash of Python, torch and CUDA versions, driver and CPU quota", "")
    hardware_id: str = column("hash of the hardware class", "")
    machine_id: str = column("keyed hash of this one machine", "")
    environment_id: str = column("name of the file in environments/ with all facts", "")
    workload: str = column("workload's name", "")
    params_json: str = column("the workload's parameters, resolved", "{}")
    preset: str = column("tiny, small or full", "")
    mode: str = column("train or infer", "")
    input: str = column("loader or resident", "")
    data_digest: str = column("hash of the data", "")
    arm: str = column("the arm in canonical form; empty for plain PyTorch", "")
    is_baseline: bool = column("whether the arm is the experiment's baseline", False)
    kind: str = column("timing, numerics, profile or prepare", "timing")
    rank_count: int = column("processes that ran the trial together", 1)
    device: str = column("cpu or the GPU's name", "cpu")
    seed: int = column("seed of the trial", 0)
    measure_json: str = column("the [measure] settings, resolved", "{}")

    # how it went
    outcome: Outcome = column("how it ended", Outcome.OK)
    reason: str = column("why, in a sentence; empty when ok", "")
    started_at: str = column("UTC start, ISO 8601 with microseconds", "")
    duration_ns: int | None = column("from process start to its end, as the parent saw it")
    attempt: int = column("0 for the first try of this place", 0)

    # time
    items_per_step: float | None = column("units of work in a step, over all ranks")
    step_count: int | None = column("steps in all stored windows of one rank")
    raw_median_window_ns: float | None = column("median over windows of time per step, before the steady cut")
    raw_mean_window_ns: float | None = column("mean over windows of time per step, before the steady cut")
    raw_median_device_ns: float | None = column("median of the device's elapsed time per step; null on a CPU")
    startup_import_ns: int | None = column("interpreter start to torch and the workload imported")
    startup_build_ns: int | None = column("data, model, treatments and optimizer built")
    startup_first_step_ns: int | None = column("first step, compilation included")
    startup_compile_ns: int | None = column("of it, time reported by the compiler; null where nothing compiles")
    startup_total_ns: int | None = column("process start to first warm step done")
    steps_per_epoch: int | None = column("steps of a whole pass over the data; null unless windows are epochs")
    timed_ns: int | None = column("wall time of the timed part, all windows and what lies between them")
    data_wait_ns: float | None = column("median per step of the wait for the next batch")
    enqueue_share: float | None = column("host's issue time over the window's time; near 1 = host-bound; null on a CPU")

    # memory
    peak_host_bytes: int | None = column("peak resident memory of the timed part (reset before it), largest rank")
    peak_allocated_bytes: int | None = column("peak of torch's allocated device bytes, largest rank; null on a CPU")
    peak_reserved_bytes: int | None = column("peak of torch's reserved device bytes, largest rank; null on a CPU")
    peak_device_bytes: int | None = column("peak device memory of the process by NVML; null on a CPU")
    alloc_retries: int | None = column("allocations of the timed part that first had to free cached memory")
    peak_build_bytes: int | None = column("peak while it was built: allocated device bytes, on a CPU resident memory")
    peak_first_step_bytes: int | None = column("the same of the first step")
    peak_warm_up_bytes: int | None = column("the same of the warm-up")

    # several ranks
    comm_bytes: int | None = column("bytes a rank sends in a step by a ring, from the profiled step's collectives")
    comm_ns: int | None = column("time of the profiled step during which ranks exchanged something, longest rank")
    ranks_json: str = column("what differs by rank: memory, items, loss, bytes; empty list for one process", "[]")

    # utilization
    cpu_utilization: float | None = column("CPU time of the child's tree over wall time and allowed cores, timed part")
    gpu_utilization: float | None = column("mean of the driver's utilization over the timed part")
    gpu_utilization_reason: str = column("why gpu_utilization is null", "")
    device_busy: float | None = column("share of the profiled step in which a kernel or copy ran; null on a CPU")
    sm_activity: float | None = column("mean share of the timed part with work on the multiprocessors (NVML GPM)")
    tensor_activity: float | None = column("mean activity of the tensor cores over the timed part (NVML GPM)")
    dram_activity: float | None = column("mean use of the device memory's bandwidth over the timed part (NVML GPM)")
    energy_mj: float | None = column("growth of the boards' energy counters over the timed part")

    # parts of a step and of the work, measured apart from the windows, after them
    step_kind: str | None = column("what a step is: train, infer, load or call")
    forward_ns: int | None = column("forward pass of one batch, the device waited for at both ends: a median")
    backward_ns: int | None = column("the same of the backward pass")
    optimizer_ns: int | None = column("one step of the optimizer, likewise")
    parts_json: str | None = column("time and items of the parts that the workload names, as JSON")
    bit_identical: bool | None = column("whether the same batch and random numbers gave the same bits again")
    sample_ns: float | None = column("median time of one item of the dataset, made in the trial's own process")
    decode_ns: float | None = column("the same without the dataset's transform")
    allocation_ns: float | None = column("median host time to allocate a tensor of 1 KiB to 16 MiB and give it back")
    flops_per_item: float | None = column("operations an item by the arm's model, recomputation left out")
    model_flops_per_item: float | None = column("operations an item by the workload's own model")
    product_dtype: str | None = column("type in which most matrix products and convolutions of the profiled step were")
    not_measured_json: str | None = column("why some of these are null, by what was tried; null where all went well")

    # work done
    steps_asked: int | None = column("optimizer steps (or inferences) asked for in the windows")
    steps_performed: int | None = column("of these, performed")
    skipped_steps: int | None = column("optimizer steps skipped by a loss scaler during warm-up")
    loss_before: float | None = column("loss of the first step")
    loss_after: float | None = column("loss of the last step")

    # disturbance over the timed part
    steal_share: float | None = column("stolen CPU time over wall time and cores")
    foreign_cpu_share: float | None = column("CPU time of other processes over wall time, in cores")

    # proof and siblings
    evidence_json: str = column("what each treatment's proof found, by name", "{}")
    already_so_json: str = column("treatments of other arms whose proof this trial passes, with the evidence", "{}")
    declared_changes_json: str | None = column(
        "facts of the work or the runtime that the arm's treatments alter on purpose"
    )
    declared_numerics: str | None = column("what the arm promises of its results: identical, close or changes")
    numerics_json: str | None = column("what a numerics trial computed, step by step; null for other kinds")
    facts_json: str = column("runtime facts read back in the child (threads, precision flags, versions)", "{}")
    stderr_tail: str = column("end of the child's error output when it failed", "")
    steps_sha256: str = column("SHA-256 of the sibling file in steps/; empty if there is none", "")
    steps_rows: int = column("rows in it", 0)
    telemetry_sha256: str = column("SHA-256 of the sibling file in telemetry/; empty if there is none", "")
    telemetry_rows: int = column("rows in it", 0)

    @property
    def is_simulated(self) -> bool:
        """Whether no machine was measured: `harness simulate` made it up."""
        return '"simulated": true' in self.facts_json

    @property
    def protocol(self) -> str:
        """What a window of the trial holds: steps, epochs or requests."""
        return str(json.loads(self.measure_json).get("protocol", "steps"))

    @property
    def is_skip(self) -> bool:
        """Whether the row stands for an arm that was left out, and no process ran."""
        return self.kind == "timing" and self.block_index is None


@dataclass(frozen=True, kw_only=True)
class ChildRecord:
    """What one rank of a child says of its trial; `record.rank<k>.json`."""

    outcome: Outcome
    reason: str = ""
    windows: tuple[Window, ...] = ()
    items_per_step: float | None = None
    started_monotonic_ns: int | None = None
    """Start of the timed part, on the system-wide monotonic clock."""
    ended_monotonic_ns: int | None = None
    startup_import_ns: int | None = None
    startup_build_ns: int | None = None
    startup_first_step_ns: int | None = None
    startup_compile_ns: int | None = None
    startup_total_ns: int | None = None
    peak_host_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_device_bytes: int | None = None
    alloc_retries: int | None = None
    cpu_busy_ns: int | None = None
    """CPU time of this process and its children over the timed part."""
    steps_asked: int | None = None
    steps_performed: int | None = None
    skipped_steps: int | None = None
    loss_before: float | None = None
    loss_after: float | None = None
    comm_bytes: int | None = None
    comm_ns: int | None = None
    rank: int = 0
    written_monotonic_ns: int = 0
    """When it was written, on the system-wide monotonic clock: of ranks that failed, the first explains the others."""
    peak_build_bytes: int | None = None
    peak_first_step_bytes: int | None = None
    peak_warm_up_bytes: int | None = None
    step_kind: str | None = None
    steps_per_epoch: int | None = None
    device_busy: float | None = None
    product_dtype: str | None = None
    afterwards: dict[str, Any] = field(default_factory=dict)
    """Columns of `TrialRecord` that were measured apart from the windows, by name."""
    not_measured: dict[str, str] = field(default_factory=dict)
    """Why some of them are missing, by what was tried."""
    evidence: dict[str, Any] = field(default_factory=dict)
    already_so: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    numerics: dict[str, Any] | None = None
    """What `child.torch_side.numerics.follow` found, in a numerics trial."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A number with a name and a unit."""

    metric: str
    value: float
    unit: str
