"""One timing: first step, warm-up, windows until steady, one profiled step, proofs. Knows nothing of torch."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from harness.arms import format_use, full_params
from harness.child import host, traced
from harness.child.loop import run_window
from harness.child.rig import Rig
from harness.record import ChildRecord, Outcome, Window
from harness.spec import Kind, NoEffect, NotApplicable, Phase, Trace, Treatment, Trial, Use
from harness.steady import earliest_start, find_steady

FEWEST_WINDOWS = 5
PREPARE_STEPS = 2


@dataclass
class Startup:
    """Moments of the start on the monotonic clock, in ns."""

    started: int
    imported: int = 0
    built: int = 0
    first_step: int = 0
    warm: int = 0
    peak_is_reset: bool = False
    """Whether the kernel let the peak of resident memory start anew with the build."""


@dataclass
class Proofs:
    """The arm's treatments, whose proofs must hold, and those of other arms, whose proofs should not."""

    own: Sequence[tuple[Treatment, Use]]
    foreign: Sequence[tuple[Treatment, Use]]
    snapshots: dict[str, Any] = field(default_factory=dict)

    def before(self, rig: Rig) -> None:
        for treatment, use in self.own:
            if treatment.proof.before:
                self.snapshots[treatment.name] = treatment.proof.before(rig.bench, **full_params(use, treatment))

    def evidence(self, rig: Rig, trace: Any) -> dict[str, Any]:
        """Evidence of each own treatment; raises NoEffect with the treatment's name in front."""
        found = {}
        for treatment, use in self.own:
            try:
                found[treatment.name] = treatment.proof.after(
                    rig.bench, self.snapshots.get(treatment.name), trace, **full_params(use, treatment)
                )
            except NoEffect as error:
                raise NoEffect(f"{treatment.name}: {error}") from error
        return found

    def already_so(self, rig: Rig, run_steps: Callable[[], None], trace: Any) -> dict[str, Any]:
        """Which foreign treatments' proofs this untreated process passes, with their evidence, by use."""
        accepted: dict[str, Any] = {}
        for treatment, use in self.foreign:
            params = full_params(use, treatment)
            try:
                snapshot = treatment.proof.before(rig.bench, **params) if treatment.proof.before else None
                run_steps()
                evidence = treatment.proof.after(rig.bench, snapshot, trace, **params)
            except (NoEffect, NotApplicable):
                continue
            except Exception as error:  # a proof may assume what only its own treatment sets up: that is no acceptance
                rig.bench.facts.setdefault("foreign_proof_errors", {})[treatment.name] = (
                    f"{type(error).__name__}: {error}"
                )
                continue
            accepted[format_use(use)] = evidence
        return accepted


def measure(trial: Trial, rig: Rig, proofs: Proofs, startup: Startup) -> ChildRecord:
    """Run the trial that `rig` is set up for and say what happened."""
    build_peak = _phase_peak(rig, startup)
    host.enter_phase(trial, Phase.FIRST_STEP)
    first_loss = _first_step(rig, startup)
    first_step_peak = _phase_peak(rig, startup)
    host.enter_phase(trial, Phase.WARM_UP)
    _warm_up(trial, rig)
    startup.warm = time.monotonic_ns()
    items = rig.items_per_step()
    record = ChildRecord(
        outcome=Outcome.OK,
        items_per_step=items,
        startup_import_ns=startup.imported - startup.started,
        startup_build_ns=startup.built - startup.imported,
        startup_first_step_ns=startup.first_step - startup.built,
        startup_compile_ns=rig.compile_ns(),
        startup_total_ns=startup.warm - startup.started,
        skipped_steps=rig.counters.steps_skipped,
        loss_before=first_loss,
        peak_build_bytes=build_peak,
        peak_first_step_bytes=first_step_peak,
        peak_warm_up_bytes=_phase_peak(rig, startup),
        step_kind=rig.step_kind,
    )
    proofs.before(rig)
    if trial.cell.kind is Kind.PREPARE:
        _steps(rig, PREPARE_STEPS)
    else:
        host.enter_phase(trial, Phase.TIMED)
        record = _timed_part(trial, rig, record)
    host.enter_phase(trial, Phase.PROOF)
    record = _prove(rig, proofs, record)
    if record.outcome in (Outcome.OK, Outcome.NOT_STEADY) and trial.cell.kind is not Kind.PREPARE:
        columns, reasons = rig.afterwards()
        record = replace(record, afterwards=columns, not_measured=reasons)
    return record


def _phase_peak(rig: Rig, startup: Startup) -> int | None:
    """Peak of a phase that ends here: allocated device bytes, on a CPU resident memory. The next one starts."""
    allocated = rig.peaks().get("peak_allocated_bytes")
    resident = host.peak_rss_bytes() if startup.peak_is_reset else None
    rig.reset_peaks()
    startup.peak_is_reset = host.reset_peak_rss()
    return resident if allocated is None else allocated


def _steps(rig: Rig, count: int) -> None:
    """Untimed steps, for proofs that look at what grew since the warm-up."""
    for _ in range(count):
        rig.step()
    rig.synchronise()


def _first_step(rig: Rig, startup: Startup) -> float | None:
    rig.step()
    rig.synchronise()
    startup.first_step = time.monotonic_ns()
    return rig.loss()


def _warm_up(trial: Trial, rig: Rig) -> None:
    """Steps until nothing compiles any more, then put the state back to the start."""
    wanted = trial.cell.measure.warmup_steps if trial.cell.kind is not Kind.PREPARE else PREPARE_STEPS
    quiet, compiled = 0, rig.compile_count()
    times = rig.bench.step_times_ns
    while quiet < wanted and len(times) < 10 * wanted:
        times.append(run_window(rig.step, 1, rig.synchronise)[1])
        now = rig.compile_count()
        quiet, compiled = (0 if rig.agree(now != compiled) else quiet + 1), now
    rig.restore()
    rig.synchronise()
    if rig.compile_count():
        rig.forbid_recompiles()


@dataclass(frozen=True)
class Unit:
    """What is timed as one window: so many calls, and the steps that they make."""

    call: Callable[[], Any]
    calls: int
    step_count: int


def _steps_in_window(trial: Trial, rig: Rig) -> Unit:
    """As many steps as fill a window, or one request, the device waited for before and after."""
    count = 1 if trial.cell.measure.protocol == "requests" else _steps_per_window(trial, rig)
    return Unit(rig.step, count, count)


def _steps_per_window(trial: Trial, rig: Rig) -> int:
    step_ns = max(1.0, rig.agree(float(median(rig.bench.step_times_ns[-3:]))))
    needed = math.ceil(trial.cell.measure.window_ms * 1e6 / step_ns)
    return max(needed, 5 if trial.cell.device != "cpu" else 1)


def _timed_part(trial: Trial, rig: Rig, record: ChildRecord) -> ChildRecord:
    if trial.cell.measure.protocol == "epochs":
        assert rig.epochs is not None, "the plan lets only loaders pass"
        epochs = rig.epochs()
        record = replace(record, items_per_step=epochs.items_per_step, steps_per_epoch=epochs.steps)
        record = _timed_windows(trial, rig, record, lambda: Unit(epochs.run, 1, epochs.steps))
        epochs.close()
        return record
    return _timed_windows(trial, rig, record, lambda: _steps_in_window(trial, rig))


def _timed_windows(trial: Trial, rig: Rig, record: ChildRecord, unit_of: Callable[[], Unit]) -> ChildRecord:
    performed = rig.counters.steps_performed
    peak_is_reset = host.reset_peak_rss()
    rig.reset_peaks()
    gc.collect()
    gc.disable()
    unit = unit_of()  # last, since ranks meet there and start together
    busy = host.tree_cpu_ns()
    started = time.monotonic_ns()
    try:
        windows, reason = _windows(trial, rig, unit)
    finally:
        gc.enable()
    ended = time.monotonic_ns()
    peaks: dict[str, Any] = dict(rig.peaks())
    return replace(
        record,
        outcome=Outcome.NOT_STEADY if reason else Outcome.OK,
        reason=reason,
        windows=tuple(windows),
        started_monotonic_ns=started,
        ended_monotonic_ns=ended,
        cpu_busy_ns=host.tree_cpu_ns() - busy,
        peak_host_bytes=host.peak_rss_bytes() if peak_is_reset else None,
        steps_asked=unit.step_count * len(windows),
        steps_performed=rig.counters.steps_performed - performed if rig.counts_steps else None,
        **peaks,
    )


def _windows(trial: Trial, rig: Rig, unit: Unit) -> tuple[list[Window], str]:
    """Windows until the process is steady, or the slowest of its ranks; the reason is empty when it is."""
    settings = trial.cell.measure
    windows: list[Window] = []
    slowest: list[float] = []
    reason = ""
    for _ in range(1 + settings.extensions):
        deadline = time.monotonic() + settings.timed_seconds
        target = len(windows) + settings.windows
        fewest = len(windows) + min(FEWEST_WINDOWS, settings.windows)
        while len(windows) < target and (len(windows) < fewest or rig.agree(time.monotonic() < deadline)):
            windows.append(_one_window(trial, rig, len(windows), unit))
            slowest.append(rig.agree(windows[-1].host_ns / unit.step_count))
        changed = rig.agree(earliest_start([w.compiles for w in windows], [w.reserved_bytes for w in windows]))
        steady = find_steady(slowest, earliest=int(changed))
        if steady.ok:
            return windows, ""
        reason = steady.reason
    return windows, reason


def _one_window(trial: Trial, rig: Rig, index: int, unit: Unit) -> Window:
    compiled, waited = rig.compile_count(), rig.counters.data_wait_ns
    device_elapsed = rig.mark_device()
    started = time.monotonic_ns()
    issued_ns, total_ns = run_window(unit.call, unit.calls, rig.synchronise)
    now = rig.compile_count()
    return Window(
        trial_id=trial.trial_id,
        rank=rig.bench.rank,
        window_index=index,
        step_count=unit.step_count,
        host_ns=total_ns,
        enqueue_ns=issued_ns if trial.cell.device != "cpu" else None,
        device_ns=device_elapsed(),
        data_wait_ns=rig.counters.data_wait_ns - waited if rig.waits_for_data else None,
        started_monotonic_ns=started,
        compiles=now - compiled if now is not None and compiled is not None else None,
        reserved_bytes=rig.reserved_bytes(),
    )


def _prove(rig: Rig, proofs: Proofs, record: ChildRecord) -> ChildRecord:
    """Profile one step and hear every proof; a refusal takes the numbers away."""
    trace = rig.profile()
    facts = rig.facts()
    record = replace(
        record,
        loss_after=rig.loss(),
        device_busy=traced.device_busy(trace),
        product_dtype=traced.product_dtype(trace, facts),
        **_exchanged(rig, trace),
    )
    try:
        evidence: Mapping[str, Any] = proofs.evidence(rig, trace)
    except NoEffect as error:
        return replace(_without_numbers(record), outcome=Outcome.NOT_APPLIED, reason=str(error))
    accepted = proofs.already_so(rig, lambda: _steps(rig, PREPARE_STEPS), trace)
    return replace(record, evidence=dict(evidence), already_so=accepted, facts={**facts, **rig.bench.facts})


def _exchanged(rig: Rig, trace: Trace | None) -> dict[str, Any]:
    """What this rank exchanged with the others in the profiled step; nothing where no exchange is to be seen."""
    seen = trace.collectives() if trace is not None and rig.bench.rank_count > 1 else []
    if trace is None or not seen:
        return {}
    sent = sum(each.sent_bytes(rig.bench.rank_count) for each in seen)
    return {"comm_bytes": round(sent), "comm_ns": trace.communication_ns()}


def _without_numbers(record: ChildRecord) -> ChildRecord:
    return ChildRecord(
        outcome=record.outcome,
        startup_import_ns=record.startup_import_ns,
        startup_build_ns=record.startup_build_ns,
        startup_total_ns=record.startup_total_ns,
    )
