"""What this machine can tell apart: the baseline against itself, as `harness aa` measures it.

Works on the baselines of any experiment that runs them at least twice a block.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from harness.judge.estimate import ORDER_FROM, Estimate, Floats, estimate, half_width
from harness.judge.pairing import blocks_of, declared_places, records_by_place
from harness.judge.processes import Process, common_start, processes
from harness.judge.stopping import LOOKS, level, minimal_detectable_effect, schedule
from harness.metrics import PRIMARY, WindowTable
from harness.record import Outcome, TrialRecord
from harness.spec import Analysis, Experiment, Kind, Scalar

FEWEST_BLOCKS = 4


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The noise of one workload on one machine. All effects are relative changes."""

    hardware_id: str
    workload: str
    axes: Mapping[str, Scalar]
    blocks: int
    noise_floor: float
    """Standard deviation of one block's difference between two single processes."""
    detectable: Mapping[int, float]
    """Blocks -> change found with 80 % power by one comparison with a single baseline run."""
    order_effect: float
    """How much slower the later of two runs in a block is."""
    order_p: float
    dependence: float
    """Lag-1 correlation of the block differences; 0 where blocks are independent."""
    dependence_p: float
    comparisons: int
    """Pairs of replicates that were compared with each other."""
    false_positives: int
    """Of these, how many an unadjusted 95 % interval would have called different."""


def calibrate(
    experiment: Experiment, spec_id: str, trials: Sequence[TrialRecord], windows: Mapping[str, WindowTable]
) -> list[Calibration]:
    """Calibrations of all places with at least 4 blocks that hold the baseline twice."""
    own = [record for record in trials if record.spec_id == spec_id and record.is_baseline]
    ran = [record for record in own if record.kind == Kind.TIMING and record.outcome == Outcome.OK]
    ready = processes(ran, windows)
    found = []
    for place, records in records_by_place(declared_places(experiment, own), own).items():
        rows = []
        for block in blocks_of(records):
            members = [ready[record.trial_id] for _, record in sorted(block.trials.items()) if record.trial_id in ready]
            if len(members) >= 2 and all(member.steady for member in members):
                rows.append(_logs(members))
        if len(rows) >= FEWEST_BLOCKS:
            found.append(_of_place(place.hardware_id, place.workload, dict(place.axes), rows, experiment.analysis))
    return found


def _logs(members: Sequence[Process]) -> Floats:
    """Log of the typical step of each replicate, in the order in which they ran."""
    values = [member.value(PRIMARY, start) for member, start in zip(members, common_start(members), strict=True)]
    return np.array([math.nan if value is None else math.log(value) for value in values])


def _of_place(
    hardware_id: str, workload: str, axes: Mapping[str, Scalar], rows: Sequence[Floats], analysis: Analysis
) -> Calibration:
    late = np.array([row[1] - row[0] for row in rows])
    sign = np.where(np.arange(len(late)) % 2 == 0, 1.0, -1.0)
    of = estimate(sign * late, sign)
    shift = estimate(late, np.zeros(len(late)))
    dependence, dependence_p = lag_correlation(sign * late)
    verdicts = list(_claims(rows))
    return Calibration(
        hardware_id=hardware_id,
        workload=workload,
        axes=axes,
        blocks=len(rows),
        noise_floor=float(of.spread),
        detectable={blocks: _detectable(float(of.spread), blocks, analysis) for blocks in LOOKS},
        order_effect=math.expm1(float(shift.center)),
        order_p=float(2 * stdtr(shift.freedom, -abs(shift.center) / shift.error)) if shift.error > 0 else 1.0,
        dependence=dependence,
        dependence_p=dependence_p,
        comparisons=len(verdicts),
        false_positives=sum(verdicts),
    )


def _detectable(spread: float, blocks: int, analysis: Analysis) -> float:
    """The change that so many blocks of this noise would find, at the level of their look."""
    freedom = blocks - (2.0 if blocks >= ORDER_FROM else 1.0)
    error = spread / math.sqrt(blocks)
    of = Estimate(
        center=np.zeros(()),
        error=np.asarray(error),
        freedom=np.asarray(freedom),
        spread=np.asarray(spread),
        order_effect=np.asarray(math.nan),
        order_error=np.asarray(math.nan),
        blocks=blocks,
    )
    return float(minimal_detectable_effect(of, level(schedule()[blocks], analysis.alpha)))


def _claims(rows: Sequence[Floats]) -> list[bool]:
    """Whether each pair of replicates, told apart by a fixed rotation of their places, differs at 95 %."""
    count = min(len(row) for row in rows)
    rotated = np.array([np.roll(row[:count], block) for block, row in enumerate(rows)])
    of = [
        estimate(rotated[:, a] - rotated[:, b], np.zeros(len(rows))) for a, b in itertools.combinations(range(count), 2)
    ]
    return [bool(abs(each.center) > half_width(each, 0.05)) for each in of]


def lag_correlation(differences: Floats) -> tuple[float, float]:
    """Lag-1 autocorrelation of the blocks, corrected for its bias of -1/n, and the p of its normal approximation."""
    deviation = differences - differences.mean()
    total = float(np.sum(deviation**2))
    if total == 0:
        return 0.0, 1.0
    count = len(differences)
    raw = float(np.sum(deviation[1:] * deviation[:-1])) / total + 1 / count
    return raw, math.erfc(abs(raw) * math.sqrt(count) / math.sqrt(2))
