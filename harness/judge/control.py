"""Controls inside an experiment: the baseline against itself, and an effect of known size that was planted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.judge.estimate import estimate, p_value
from harness.judge.pairing import Pair
from harness.judge.types import Comparison, Word
from harness.metrics import PRIMARY

ALPHA = 0.001
"""Level of the test, made once, at the end."""
FEWEST_BLOCKS = 4


@dataclass(frozen=True)
class NegativeControl:
    """What the baseline's first two replicates say of each other."""

    blocks: int
    difference: float
    """On the log scale."""
    p: float
    failed: bool


def negative_control(pairs: Iterable[Pair], rope: float) -> NegativeControl | None:
    """Test the baseline's first replicate of each block against its second; None with fewer than 4 such blocks.

    Which of the two plays the treated part alternates from block to block, so that their places cancel. It fails where
    the difference is beyond half the region of practical equivalence (`rope`, log scale) at level .001.
    """
    blocks = {(pair.session_id, pair.block_index): pair for pair in pairs if len(pair.baselines.processes) >= 2}
    differences, order = [], []
    for ordinal, key in enumerate(sorted(blocks)):
        replicates = blocks[key].baselines
        values = replicates.values(PRIMARY)
        if values is None or min(values) <= 0:
            continue
        places = [process.record.position or 0 for process in replicates.processes]
        early, late = np.argsort(places, kind="stable")[:2]
        sign = 1 if ordinal % 2 == 0 else -1
        differences.append(sign * (math.log(values[late]) - math.log(values[early])))
        order.append(sign)
    if len(differences) < FEWEST_BLOCKS:
        return None
    of = estimate(differences, order)
    p, difference = float(p_value(of)), float(of.center)
    return NegativeControl(len(differences), difference, p, p < ALPHA and abs(difference) > rope / 2)


# ------------------------------------------------------------------------------------------------ the positive control

PLANTED = "planted_percent"
"""Key of the evidence in which a treatment that plants a known slowdown says how much it really planted."""


@dataclass(frozen=True)
class PositiveControl:
    """Whether a comparison found what was planted."""

    words: str
    failed: bool


def positive_control(pairs: Sequence[Pair], comparison: Comparison) -> PositiveControl | None:
    """Whether the interval contains the slowdown that was planted; None where nothing was.

    What was planted is what the processes say they did, since a wait can turn out longer than asked for.
    """
    sizes = [size for pair in pairs if (size := planted(pair)) is not None]
    if not sizes or len(sizes) < len(pairs) or comparison.ci_low is None or comparison.ci_high is None:
        return None
    size = math.fsum(sizes) / len(sizes)
    inside = comparison.ci_low <= 1 / (1 + size) <= comparison.ci_high
    found = comparison.verdict in (Word.SLOWER, Word.EQUIVALENT)
    what = f"a slowdown of {size:.2%} was planted"
    if not inside:
        words = f"positive control failed: {what}, and the interval does not contain it"
    elif found:
        words = f"positive control passed: {what}, and the interval contains it"
    else:
        words = f"positive control open: {what}, and too few blocks have been measured to find it"
    return PositiveControl(words, not inside)


def planted(pair: Pair) -> float | None:
    """The relative slowdown that the treated process planted; None where its arm does anything else as well."""
    if PLANTED not in pair.treated.record.evidence_json:
        return None
    evidence = json.loads(pair.treated.record.evidence_json)
    besides = set(json.loads(pair.baselines.processes[0].record.evidence_json))
    added = [found for name, found in evidence.items() if name not in besides]
    if len(added) != 1 or not isinstance(added[0], dict) or PLANTED not in added[0]:
        return None
    return float(added[0][PLANTED]) / 100
