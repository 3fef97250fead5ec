"""What this machine can tell apart: identical runs compared with each other, as `harness aa` measures them.

The pairs are judged like the arms of any experiment (`pairing`, `primary`); here is what they say together, and how
later verdicts cite it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
from scipy.special import stdtr

from harness.judge.estimate import ORDER_FROM, Estimate, Floats
from harness.judge.pairing import Contrast, Place, replicate_places
from harness.judge.processes import Process, common_start
from harness.judge.stopping import LOOKS, level, minimal_detectable_effect, schedule
from harness.judge.types import Calibration, Comparison, Threat, Word
from harness.metrics import PRIMARY
from harness.record import TrialRecord
from harness.spec import Analysis, Experiment, Kind

FEWEST_BLOCKS = 4
FRESH = timedelta(days=7)
"""A calibration older than this, as seen from the trials that cite it, is stale."""
NOTE_P = 0.01


def calibrations(
    experiment: Experiment, found: Sequence[Contrast], primary: Sequence[Comparison]
) -> tuple[Calibration, ...]:
    """The calibration of every place of an A/A experiment that has at least 4 whole blocks; of others, none."""
    if not experiment.is_aa:
        return ()
    made = []
    for place in dict.fromkeys(contrast.place for contrast in found):
        here = [contrast for contrast in found if contrast.place == place]
        verdicts = [each for contrast, each in zip(found, primary, strict=True) if contrast.place == place]
        blocks = whole_blocks(here, experiment.replicates)
        if len(blocks) >= FEWEST_BLOCKS:
            made.append(_of_place(experiment, place, blocks, verdicts))
    return tuple(made)


def whole_blocks(found: Sequence[Contrast], replicates: int) -> list[tuple[int, list[Process]]]:
    """(block index, its processes by the place in which they ran), of the blocks that every pair has."""
    seen: dict[tuple[str, int], dict[int, Process]] = {}
    for contrast in found:
        for pair in contrast.pairs:
            block = seen.setdefault((pair.session_id, pair.block_index), {})
            for process in (pair.treated, *pair.baselines.processes):
                block[process.record.position or 0] = process
    return [
        (index, [block[place] for place in sorted(block)])
        for (_, index), block in sorted(seen.items())
        if len(block) == replicates
    ]


def _of_place(
    experiment: Experiment, place: Place, blocks: Sequence[tuple[int, list[Process]]], verdicts: Sequence[Comparison]
) -> Calibration:
    logs = np.array([_logs(members) for _, members in blocks])
    spread = noise_floor(logs)
    shift, shift_p = order_effect(logs)
    labelled = np.array(
        [row[list(replicate_places(len(row), index))] for row, (index, _) in zip(logs, blocks, strict=True)]
    )
    dependence, dependence_p = lag_correlation(labelled)
    last = max((process.record for _, members in blocks for process in members), key=lambda each: each.started_at)
    judged = [each for each in verdicts if each.raw_ci_low is not None and each.raw_ci_high is not None]
    return Calibration(
        machine_id=last.machine_id,
        hardware_id=place.hardware_id,
        base_env_id=last.base_env_id,
        workload=place.workload,
        preset=experiment.preset,
        mode=experiment.mode,
        input=experiment.input,
        protocol=experiment.measure.protocol,
        axes=dict(place.axes),
        measured_at=last.started_at,
        blocks=len(blocks),
        replicates=experiment.replicates,
        noise_floor=spread,
        detectable={count: _detectable(spread, count, experiment.analysis) for count in LOOKS},
        order_effect=shift,
        order_p=shift_p,
        dependence=dependence,
        dependence_p=dependence_p,
        comparisons=len(judged),
        false_positives=sum(not (each.raw_ci_low or 0) <= 1 <= (each.raw_ci_high or 0) for each in judged),
        claims=sum(each.verdict in (Word.FASTER, Word.SLOWER) for each in judged),
    )


def _logs(members: Sequence[Process]) -> Floats:
    """Log of the typical step of each run of a block, in the order in which they ran."""
    values = [member.value(PRIMARY, start) for member, start in zip(members, common_start(members), strict=True)]
    return np.array([math.nan if value is None else math.log(value) for value in values])


# ------------------------------------------------------------------------------------------------ what the runs say


def noise_floor(logs: Floats) -> float:
    """Standard deviation of one block's difference between two runs; `logs` has shape (blocks, places).

    Blocks and places are taken out (two-way analysis of variance); sqrt 2 times what is left.
    """
    left = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    freedom = (logs.shape[0] - 1) * (logs.shape[1] - 1)
    return math.sqrt(2 * float(np.sum(left**2)) / freedom)


def order_effect(logs: Floats) -> tuple[float, float]:
    """How much slower a run is than the one before it in its block (least squares a block), and the p of its t test."""
    blocks, count = logs.shape
    time = np.arange(count) - (count - 1) / 2
    slopes = logs @ time / float(np.sum(time**2))
    error = float(np.std(slopes, ddof=1)) / math.sqrt(blocks)
    center = float(slopes.mean())
    p = float(2 * stdtr(blocks - 1, -abs(center) / error)) if error > 0 else float(center == 0)
    return math.expm1(center), p


def lag_correlation(labelled: Floats) -> tuple[float, float]:
    """Correlation of the runs' differences with those of the block before, and the p of its normal approximation.

    `labelled` has shape (blocks, runs), the runs in the order in which they are named. What neighbouring blocks have in
    common is taken out; the bias of -1 / blocks is corrected.
    """
    blocks, runs = labelled.shape
    inside = labelled - labelled.mean(axis=1, keepdims=True)
    deviation = inside - inside.mean(axis=0)
    total = float(np.sum(deviation**2))
    if total == 0:
        return 0.0, 1.0
    raw = float(np.sum(deviation[1:] * deviation[:-1])) / total + 1 / blocks
    return raw, math.erfc(abs(raw) * math.sqrt(blocks * (runs - 1)) / math.sqrt(2))


def _detectable(spread: float, blocks: int, analysis: Analysis) -> float:
    """The change that so many blocks of this noise would find, at the level of their look."""
    freedom = blocks - (2.0 if blocks >= ORDER_FROM else 1.0)
    nothing = np.asarray(math.nan)
    of = Estimate(
        center=np.zeros(()),
        error=np.asarray(spread / math.sqrt(blocks)),
        freedom=np.asarray(freedom),
        spread=np.asarray(spread),
        order_effect=nothing,
        order_error=nothing,
        blocks=blocks,
    )
    return float(minimal_detectable_effect(of, level(schedule()[blocks], analysis.alpha)))


# ------------------------------------------------------------------------------------------------ citing it


def warnings_of(made: Sequence[Calibration]) -> list[Threat]:
    """What an A/A experiment says against its own machine or against the harness."""
    threats = []
    for each in made:
        where = f"A/A of {each.label}"
        if each.claims:
            threats.append(
                Threat(
                    severity="invalid",
                    text=f"{where}: {each.claims} of {each.comparisons} identical pairs judged different",
                )
            )
        if each.order_p < NOTE_P:
            text = f"{where}: a run is {each.order_effect:+.2%} slower than the one before it (p = {each.order_p:.1g})"
            threats.append(Threat(severity="note", text=f"{text}; orders are balanced, so that it cancels"))
        if each.dependence_p < NOTE_P:
            text = f"{where}: neighbouring blocks are alike (correlation {each.dependence:+.2f})"
            threats.append(Threat(severity="warning", text=f"{text}: intervals may be too short"))
    return threats


def cited(
    records: Sequence[TrialRecord], stored: Sequence[Calibration]
) -> tuple[tuple[Calibration, ...], list[Threat]]:
    """The latest A/A of each workload on the machine that measured it, and what is to be said about them."""
    chosen, threats = [], []
    timed = [record for record in records if record.kind == Kind.TIMING and record.block_index is not None]
    for machine, workload in dict.fromkeys((record.machine_id, record.workload) for record in timed):
        last = max(
            (record for record in timed if (record.machine_id, record.workload) == (machine, workload)),
            key=lambda record: record.started_at,
        )
        fitting = [each for each in stored if _fits(each, last)]
        if not fitting:
            wanted = f"{workload} ({last.preset}, {last.mode}, {last.input})"
            text = f"no A/A of {wanted} is stored for this machine: `harness aa {workload} --preset {last.preset}`"
            threats.append(Threat(severity="note", text=f"{text} measures what it can tell apart"))
            continue
        best = max(fitting, key=lambda each: each.measured_at)
        chosen.append(best)
        threats += _about(best, last)
    return tuple(chosen), threats


def _fits(calibration: Calibration, record: TrialRecord) -> bool:
    own = (calibration.machine_id, calibration.hardware_id, calibration.workload)
    place = (calibration.preset, calibration.mode, calibration.input, calibration.protocol)
    return own == (record.machine_id, record.hardware_id, record.workload) and place == (
        record.preset,
        record.mode,
        record.input,
        record.protocol,
    )


def _about(calibration: Calibration, record: TrialRecord) -> list[Threat]:
    """The citation, and whether the calibration is stale as seen from a trial."""
    threats = [Threat(severity="note", text=calibration.sentence)]
    age = datetime.fromisoformat(record.started_at) - datetime.fromisoformat(calibration.measured_at)
    again = f"`harness aa {calibration.workload} --preset {calibration.preset} --new-session` measures it again"
    if abs(age) > FRESH:
        text = (
            f"the A/A of {calibration.label} was measured {abs(age).days} days {'before' if age > FRESH else 'after'}"
        )
        threats.append(Threat(severity="warning", text=f"{text} this; {again}"))
    if calibration.base_env_id != record.base_env_id:
        text = f"the A/A of {calibration.label} was measured under another driver, torch or Python"
        threats.append(Threat(severity="warning", text=f"{text}; {again}"))
    if calibration.claims:
        text = f"the A/A of {calibration.label} judged {calibration.claims} identical pairs different"
        threats.append(Threat(severity="warning", text=f"{text}; {again}"))
    return threats
