"""Experiments with a known truth: what the statistics are tested on, and how a user plans before measuring.

The noise model is nested: session > block (every arm once, fresh process each, random order) > process > window.

    log T = level + effect of the arm + drift(time) + block + slot effect + process + window noise (AR(1), spikes)

`draw` makes it for many experiments at once; `simulate` writes one as the records and windows that a real run would
leave, so that judge and report run on it unchanged.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.judge.estimate import estimate, half_width, p_value
from harness.judge.multiplicity import shares
from harness.judge.stopping import level, schedule, sequence_p
from harness.judge.verdict import ABOVE, BELOW, EQUIVALENT, UNDECIDED, decide, log_rope
from harness.record import TrialRecord
from harness.spec import Analysis, Experiment, Scalar, UsageError
from harness.steady import find_steady_batch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Sizes of the noise, as standard deviations of log time (0.01 = 1 %)."""

    process: float
    """Between processes of one arm in one block."""
    window: float
    """Between windows of one process."""
    autocorrelation: float = 0.7
    """Of neighbouring windows."""
    drift: float = 0.0
    """Of the linear drift over a whole session."""
    walk: float = 0.0
    """Of the random walk's step from one trial to the next."""
    block: float = 0.005
    """Between blocks, common to all their trials."""
    slot: float = 0.0
    """How much slower the last place of a block is than its first."""
    spike_rate: float = 0.0
    spike_size: float = 0.2


PROFILES: Mapping[str, Noise] = MappingProxyType(
    {
        "quiet": Noise(process=0.002, window=0.005),
        "base": Noise(process=0.005, window=0.01, drift=0.02, walk=0.002, spike_rate=0.01),
        "noisy": Noise(process=0.01, window=0.03, drift=0.06, walk=0.002, spike_rate=0.03),
    }
)


@dataclass(frozen=True)
class Drawn:
    """Simulated log times of many experiments; members are the treated arms, then the baseline's replicates."""

    log_times: Floats
    """(experiments, blocks, members, windows), without any arm's effect"""
    position: Ints
    """(experiments, blocks, members): place within the block, 0 first"""
    treated: int

    def process_values(self, mean: bool = False) -> Floats:
        """L of every process, (experiments, blocks, members): log of the median window, or of the mean one."""
        if mean:
            return np.asarray(np.log(np.mean(np.exp(self.log_times), axis=-1)))
        return np.asarray(np.median(self.log_times, axis=-1))

    def order(self) -> Floats:
        """+1 where a treated arm ran after its baselines' mean position, -1 before; (experiments, treated, blocks)."""
        middle = self.position[:, :, self.treated :].mean(axis=-1, keepdims=True)
        return np.asarray(np.sign(self.position[:, :, : self.treated] - middle).transpose(0, 2, 1))

    def differences(self, mean: bool = False) -> Floats:
        """Block differences L_treated - mean L_baseline, (experiments, treated, blocks)."""
        values = self.process_values(mean)
        base = values[:, :, self.treated :].mean(axis=-1, keepdims=True)
        return np.asarray((values[:, :, : self.treated] - base).transpose(0, 2, 1))


def baselines_for(treated: int) -> int:
    """Baseline runs in a block of so many arms: ceil(sqrt(k))."""
    return math.ceil(math.sqrt(treated))


def draw(
    rng: np.random.Generator,
    noise: Noise,
    *,
    experiments: int,
    blocks: int,
    treated: int = 1,
    baselines: int | None = None,
    windows: int = 30,
    session_blocks: int | None = None,
    louder: Floats | None = None,
) -> Drawn:
    """Draw experiments under the noise model, one session each.

    `session_blocks`: the length over which the drift is stated (the number of blocks by default); `louder`: factor on
    the process and window noise of each treated arm.
    """
    replicates = baselines_for(treated) if baselines is None else baselines
    members = treated + replicates
    shape = (experiments, blocks, members)
    position = block_orders(rng, experiments, blocks, members)
    factor = np.ones(members)
    if louder is not None:
        factor[:treated] = louder
    time = np.arange(blocks)[None, :, None] * members + position
    total = (session_blocks or blocks) * members
    steps = noise.walk * rng.standard_normal((experiments, blocks * members))
    walk = np.take_along_axis(np.cumsum(steps, axis=1), time.reshape(experiments, -1), axis=1).reshape(shape)
    level = (
        noise.drift * rng.standard_normal((experiments, 1, 1)) * time / total
        + walk
        + noise.block * rng.standard_normal((experiments, blocks, 1))
        + noise.slot * position / max(members - 1, 1)
        + noise.process * factor * rng.standard_normal(shape)
    )
    inside = noise.window * factor[:, None] * autoregressive(rng, (*shape, windows), noise.autocorrelation)
    if noise.spike_rate:
        inside += math.log1p(noise.spike_size) * (rng.random((*shape, windows)) < noise.spike_rate)
    return Drawn(level[..., None] + inside, position, treated)


def block_orders(rng: np.random.Generator, experiments: int, blocks: int, members: int) -> Ints:
    """Random order of each pair of blocks, reversed in the second, as the plan has it; (experiments, blocks,
    members).
    """
    pairs = (blocks + 1) // 2
    forward = rng.permuted(np.broadcast_to(np.arange(members), (experiments, pairs, members)), axis=-1)
    both = np.stack([forward, members - 1 - forward], axis=2)
    return both.reshape(experiments, 2 * pairs, members)[:, :blocks]


def autoregressive(rng: np.random.Generator, shape: tuple[int, ...], rho: float) -> Floats:
    """Stationary AR(1) series of unit variance along the last axis."""
    series = rng.standard_normal(shape)
    if rho:
        innovation = math.sqrt(1 - rho**2)
        for index in range(1, shape[-1]):
            series[..., index] = rho * series[..., index - 1] + innovation * series[..., index]
    return series


# ------------------------------------------------------------------------------------------------ as records


def parse_truth(text: str, arms: Sequence[str]) -> dict[str, float]:
    """Read "amp_bf16=1.05 channels_last=1.00" as true speedups by arm; arms not named have none (1.00)."""
    truth = dict.fromkeys(arms, 1.0)
    for part in text.split():
        arm, _, value = part.rpartition("=")
        if arm not in truth:
            raise UsageError(f"truth '{part}': the experiment has no arm '{arm}'; it has {', '.join(arms)}")
        try:
            truth[arm] = float(value)
        except ValueError:
            raise UsageError(f"truth '{part}': '{value}' is no number; write {arm}=1.05") from None
        if not truth[arm] > 0:
            raise UsageError(f"truth '{part}': a speedup is above 0")
    return truth


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What a run would have stored: rows of `trials`, and the columns of `steps` by trial."""

    records: tuple[TrialRecord, ...]
    windows: Mapping[str, Mapping[str, Any]]


def simulate(
    experiment: Experiment,
    spec_id: str,
    truth: Mapping[str, float],
    noise: Noise,
    *,
    blocks: int,
    seed: int = 0,
    windows: int = 15,
    step_ns: float = 100e6,
    hardware: str = "simulated",
    session: int = 0,
    baselines: int | None = None,
) -> Simulated:
    """One session of the experiment with known speedups, every arm in every block.

    `experiment` is as resolved by the plan. Sessions and hardware classes differ in their noise, not in the truth.
    """
    rng = np.random.default_rng([seed, session, *hashlib.sha256(hardware.encode()).digest()[:4]])
    arms = [arm for arm in experiment.arms if arm != experiment.baseline]
    replicates = baselines_for(len(arms)) if baselines is None else baselines
    started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=session)
    session_id = _uuid7(rng, started)
    records: list[TrialRecord] = []
    columns: dict[str, Mapping[str, Any]] = {}
    for place, (workload, point) in enumerate(_places(experiment)):
        drawn = draw(
            rng, noise, experiments=1, blocks=blocks, treated=len(arms), baselines=replicates, windows=4 * windows
        )
        lengths = _until_steady(drawn.log_times[0], windows)
        level = math.log(step_ns * (1 + place))
        for block in range(blocks):
            for member in np.argsort(drawn.position[0, block]):
                arm = arms[member] if member < len(arms) else experiment.baseline
                speedup = truth.get(arm, 1.0) if member < len(arms) else 1.0
                length = int(lengths[block, member])
                log_ns = level - math.log(speedup) + drawn.log_times[0, block, member, :length]
                record = _record(experiment, spec_id, workload, point, arm, hardware, rng, started)
                record.session_id, record.is_baseline = session_id, member >= len(arms)
                record.block_index, record.position = block, int(drawn.position[0, block, member])
                columns[record.trial_id] = _windows(record, np.exp(log_ns).round().astype(np.int64))
                records.append(record)
                assert record.duration_ns is not None
                started += timedelta(microseconds=record.duration_ns / 1e3)
    return Simulated(records=tuple(records), windows=columns)


def _until_steady(log_times: Floats, windows: int) -> Ints:
    """How many windows each process measures until it is steady: as many as asked, or up to three times as many
    again.
    """
    flat = np.exp(log_times.reshape(-1, log_times.shape[-1]))
    length = np.full(len(flat), 4 * windows)
    waiting = np.arange(len(flat))
    for times in (1, 2, 3):
        ok = find_steady_batch(flat[waiting, : times * windows]).ok
        length[waiting[ok]] = times * windows
        waiting = waiting[~ok]
    return np.asarray(length.reshape(log_times.shape[:-1]))


# --------------------------------------------------------------------------------------------- many sequences at once


@dataclass(frozen=True)
class Stopped:
    """How sequences of looks ended; arrays of shape (experiments, comparisons)."""

    code: NDArray[np.int8]
    """As `judge.verdict.decide` has it; UNDECIDED where the last look found nothing."""
    blocks: Ints
    center: Floats
    half_width: Floats


def run_sequences(differences: Floats, order: Floats, analysis: Analysis, size: int | None = None) -> Stopped:
    """Follow families of comparisons from look to look, each stopping at its verdict, with the judge's own formulas.

    `differences` and `order` have shape (experiments, comparisons, blocks); `size` is the declared size of the family.
    """
    weights = schedule(analysis.min_blocks, analysis.max_blocks)
    shape = differences.shape[:2]
    family, rope = size or shape[1], log_rope(analysis.rope)
    code, stop = np.zeros(shape, dtype=np.int8), np.zeros(shape, dtype=np.int64)
    center, width, claimed_p = np.zeros(shape), np.zeros(shape), np.full(shape, np.nan)
    open_ = np.ones(shape, dtype=bool)
    for blocks in sorted(look for look in weights if look <= differences.shape[-1]):
        of = estimate(differences[..., :blocks], order[..., :blocks])
        stage = np.where(open_, sequence_p(p_value(of), weights[blocks]), claimed_p)
        share, claimed = shares(stage, analysis.alpha, family)
        half = half_width(of, level(weights[blocks], analysis.alpha * share))
        found = decide(of.center - half, of.center + half, rope)
        code, center, width = (
            np.where(open_, new, old) for new, old in ((found, code), (of.center, center), (half, width))
        )
        stop = np.where(open_, blocks, stop)
        claimed_p = np.where(open_ & claimed, 0.0, claimed_p)
        open_ &= found == UNDECIDED
    return Stopped(code.astype(np.int8), stop, center, width)


# ------------------------------------------------------------------------------------------------ planning


@dataclass(frozen=True, kw_only=True)
class Power:
    """What it takes to find an effect of a given size."""

    effect: float
    found: float
    """Share of experiments that claim it, in the right direction."""
    equivalent: float
    inconclusive: float
    mean_blocks: float
    blocks_90: int
    """Blocks after which nine of ten comparisons have their verdict."""
    repetitions: int


def power(
    effect: float,
    noise: Noise,
    analysis: Analysis,
    *,
    comparisons: int = 1,
    windows: int = 15,
    repetitions: int = 1000,
    seed: int = 0,
) -> Power:
    """How often, and after how many blocks, a true speedup of 1 + effect is found in a family of so many comparisons.

    All comparisons have the same true effect and share the block's baselines.
    """
    rng = np.random.default_rng(seed)
    drawn = draw(rng, noise, experiments=repetitions, blocks=analysis.max_blocks, treated=comparisons, windows=windows)
    stopped = run_sequences(drawn.differences() - math.log1p(effect), drawn.order(), analysis)
    right = BELOW if effect > 0 else ABOVE
    return Power(
        effect=effect,
        found=float(np.mean(stopped.code == right)),
        equivalent=float(np.mean(stopped.code == EQUIVALENT)),
        inconclusive=float(np.mean(stopped.code == UNDECIDED)),
        mean_blocks=float(stopped.blocks.mean()),
        blocks_90=int(np.quantile(stopped.blocks, 0.9, method="higher")),
        repetitions=stopped.code.size,
    )


def _places(experiment: Experiment) -> list[tuple[str, dict[str, Scalar]]]:
    points: list[dict[str, Scalar]] = [{}]
    for name, values in experiment.axes.items():
        points = [{**point, name: value} for point in points for value in values]
    return [(workload, point) for workload in experiment.workloads for point in points]


def _record(
    experiment: Experiment,
    spec_id: str,
    workload: str,
    point: Mapping[str, Scalar],
    arm: str,
    hardware: str,
    rng: np.random.Generator,
    started: datetime,
) -> TrialRecord:
    """A row with everything but its place in the session and its times."""
    identity = json.dumps([workload, sorted(point.items()), experiment.preset, experiment.mode, arm], sort_keys=True)
    return TrialRecord(
        trial_id=_uuid7(rng, started),
        spec_id=spec_id,
        cell_id=_hash("c", identity),
        code_id=_hash("k", f"simulated {arm}"),
        base_env_id=_hash("e", "simulated"),
        hardware_id=_hash("h", hardware),
        machine_id=_hash("m", hardware),
        workload=workload,
        params_json=json.dumps({**experiment.params, **point}, sort_keys=True),
        preset=experiment.preset,
        mode=experiment.mode,
        input=experiment.input,
        arm=arm,
        device=experiment.device if experiment.device != "auto" else "cpu",
        seed=experiment.seed,
        started_at=started.isoformat(timespec="microseconds"),
        items_per_step=1.0,
        facts_json=json.dumps({"simulated": True}),
    )


def _windows(record: TrialRecord, host_ns: Ints) -> dict[str, Any]:
    """The window columns of one process, and the columns of its row that follow from them."""
    count = len(host_ns)
    record.step_count = record.steps_asked = record.steps_performed = count
    record.raw_median_window_ns = float(np.median(host_ns))
    record.raw_mean_window_ns = float(np.mean(host_ns))
    record.startup_total_ns = 2_000_000_000
    record.duration_ns = record.startup_total_ns + int(host_ns.sum())
    ends = np.cumsum(host_ns)
    return {
        "trial_id": np.full(count, record.trial_id),
        "rank": np.zeros(count, dtype=np.int64),
        "window_index": np.arange(count),
        "step_count": np.ones(count, dtype=np.int64),
        "host_ns": host_ns,
        "started_monotonic_ns": ends - host_ns,
    }


def _hash(letter: str, text: str) -> str:
    return letter + hashlib.sha256(text.encode()).hexdigest()


def _uuid7(rng: np.random.Generator, moment: datetime) -> str:
    """A UUIDv7 from the simulated clock and the seeded generator: the same seed writes the same store."""
    milliseconds = int(moment.timestamp() * 1000)
    noise = int.from_bytes(rng.bytes(10), "big")
    value = milliseconds << 80 | 7 << 76 | (noise >> 68) << 64 | 2 << 62 | noise & (1 << 62) - 1
    return str(uuid.UUID(int=value))
