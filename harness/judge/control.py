"""The negative control: the baseline against itself, inside every experiment that runs it twice a block."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from harness.judge.estimate import estimate, p_value
from harness.judge.pairing import Pair
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
