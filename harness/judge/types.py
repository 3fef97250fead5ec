"""What a judgement is: comparisons with their verdicts, as plain values that the report and `harness judge` print."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.spec import Experiment, Scalar


class Word(enum.StrEnum):
    """The verdict words. Time-like metrics are faster/slower, others lower/higher."""

    FASTER = "faster"
    SLOWER = "slower"
    LOWER = "lower"
    HIGHER = "higher"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    NOT_RUN = "not run"
    """Skipped, failed, or present on one side only: the reason says which."""
    DESCRIPTIVE = "descriptive"
    """A metric without a better direction (utilization): both values are shown and nothing is claimed."""


@dataclass(frozen=True, kw_only=True)
class BlockPoint:
    """One block of a contrast, for the per-block strip and the store's reader."""

    block_index: int
    session_id: str
    before: float
    """Baseline's process value in the metric's unit (geometric mean over its replicates)."""
    after: float
    order: int
    """+1 where the treated arm ran after the baseline's mean position, -1 before."""
    baselines: tuple[float, ...]
    trial_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One arm against the baseline, at one place (workload, parameters, mode, preset, input), in one metric."""

    workload: str
    mode: str
    preset: str
    input: str
    axes: Mapping[str, Scalar]
    """The parameters that the experiment varies, at this place."""
    arm: str
    baseline: str
    metric: str
    unit: str
    before: float | None
    after: float | None
    speedup: float | None
    """Above 1 is better, for every metric: before / after where lower is better."""
    ci_low: float | None
    ci_high: float | None
    ci_level: float | None
    """Level of the interval that decided."""
    raw_ci_low: float | None
    raw_ci_high: float | None
    """The unadjusted 95 % interval."""
    blocks: int
    verdict: Word
    reason: str
    primary: bool = True
    """Whether it belongs to the declared primary family; others are exploratory."""
    final: bool = False
    """No more blocks are needed for it (decided, invalid, not run, or out of looks)."""
    beyond_rope: bool = False
    adjusted_p: float | None = None
    minimal_detectable_effect: float | None = None
    """As a relative change, at the blocks measured, with 80 % power."""
    blocks_needed: int | None = None
    """Estimated blocks until a verdict, where it is inconclusive."""
    dropped_blocks: int = 0
    hardware_id: str = ""
    """Hardware class it was measured on; classes are never pooled."""
    points: tuple[BlockPoint, ...] = ()
    notes: tuple[str, ...] = ()
    """TAIL EFFECT, Hodges-Lehmann disagreement, order effect, bimodal processes, ..."""


@dataclass(frozen=True, kw_only=True)
class Threat:
    """A threat to validity that the harness found by itself."""

    severity: str
    """"note", "warning" or "invalid"."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The noise of one workload on one machine, from identical runs. All effects are relative changes."""

    machine_id: str
    hardware_id: str
    base_env_id: str
    workload: str
    preset: str
    mode: str
    input: str
    protocol: str
    axes: Mapping[str, Scalar]
    measured_at: str
    """Start of its last trial, UTC, ISO 8601."""
    blocks: int
    replicates: int
    """Identical runs in a block."""
    noise_floor: float
    """Standard deviation of one block's difference between two runs."""
    detectable: Mapping[int, float]
    """Blocks -> change found with 80 % power by one comparison with a single baseline run."""
    order_effect: float
    """How much slower a run is than the one before it in its block."""
    order_p: float
    dependence: float
    """Correlation of the runs' differences with those of the block before; 0 where blocks are independent."""
    dependence_p: float
    comparisons: int
    """Pairs of runs that were compared with each other."""
    false_positives: int
    """Of these, how many the unadjusted 95 % interval calls different: one in twenty is expected."""
    claims: int
    """Of these, how many the verdict calls different: of all pairs of the experiment together, hardly ever one."""

    @property
    def label(self) -> str:
        axes = "".join(f", {name}={value}" for name, value in self.axes.items())
        return f"{self.workload} ({self.preset}, {self.mode}, {self.input}{axes})"

    @property
    def sentence(self) -> str:
        """What a verdict cites."""
        found = f"{self.false_positives} of {self.comparisons} identical pairs outside their 95 % interval"
        return (
            f"A/A of {self.label} on this machine: noise floor {self.noise_floor:.2%} a block, {found} "
            f"({0.05 * self.comparisons:.1f} expected), {self.claims} judged different; "
            f"9 blocks find a change of {self.detectable.get(9, float('nan')):.2%}"
        )


@dataclass(frozen=True, kw_only=True)
class SessionSummary:
    """One session of an experiment: all are listed, so that none can be left out unseen."""

    session_id: str
    started_at: str
    ended_at: str
    """Start of its last trial."""
    blocks: int
    """Blocks it began, of all places."""
    trials: int
    failed: int
    counted: int
    """Timed trials that the judgement is made of; 0 where later code or another environment superseded all."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """All comparisons of one experiment, recomputed from the records each time."""

    experiment: Experiment
    spec_id: str
    comparisons: tuple[Comparison, ...]
    threats: tuple[Threat, ...] = ()
    sessions: tuple[str, ...] = ()
    """Of the trials that count."""
    history: tuple[SessionSummary, ...] = ()
    """Every session of the spec, superseded ones included."""
    calibrations: tuple[Calibration, ...] = ()
    """Of an A/A experiment its own; of any other the stored ones that it is to be read with."""
    outcome_counts: Mapping[str, int] = field(default_factory=dict)
    dropped_blocks: int = 0
    variance: tuple[Mapping[str, float | str], ...] = ()
    """Per place and arm: within- and between-process sd, autocorrelation, recommended windows."""
    factors: tuple[Mapping[str, float | str], ...] = ()
    """Factorial designs: effects and interactions with intervals, aliases, shares of variance."""
