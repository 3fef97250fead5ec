"""The factors of a factorial experiment: collects whole blocks and fits the effects, place by place."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from harness.judge.designs import FACTORIAL, fit_effects
from harness.judge.estimate import Floats
from harness.judge.pairing import Contrast, Place
from harness.judge.series import treated_value
from harness.judge.types import Threat
from harness.metrics import METRICS, PRIMARY
from harness.spec import Experiment, UsageError

FEWEST_BLOCKS = 2
NAME = re.compile(r"(?:^|\+)([a-z][a-z0-9_]*)(?:\([^)]*\))?")

Row = dict[str, float | str]


def factor_rows(experiment: Experiment, found: Sequence[Contrast]) -> tuple[list[Row], list[Threat]]:
    """Effects and interactions of every place, as the judgement carries them, and what could not be fitted and why."""
    rows: list[Row] = []
    threats: list[Threat] = []
    if experiment.design not in FACTORIAL:
        return rows, threats
    names = [treatments_of(each)[0] for each in experiment.treatments]
    for place in dict.fromkeys(contrast.place for contrast in found):
        here = [contrast for contrast in found if contrast.place == place and contrast.pairs]
        levels, logs = _whole_blocks(experiment, names, here)
        if len(logs) < FEWEST_BLOCKS:
            continue
        try:
            effects = fit_effects(names, levels, logs, interactions=experiment.design != "plackett_burman")
        except UsageError as error:
            threats.append(Threat(severity="warning", text=f"{place.workload}: factors not fitted: {error}"))
            continue
        rows += [
            {
                **_where(place),
                "effect": effect.name,
                "speedup": effect.speedup,
                "ci_low": effect.ci_low,
                "ci_high": effect.ci_high,
                "p": effect.p,
                "variance_share": effect.variance_share,
                "aliases": ", ".join(effect.aliases),
                "error": "pooled" if effect.pooled else "by block",
                "blocks": float(len(logs)),
            }
            for effect in effects
        ]
    return rows, threats


def treatments_of(arm: str) -> list[str]:
    """Names of the treatments in an arm's canonical text, parameters left out."""
    return NAME.findall(arm)


def _where(place: Place) -> Row:
    axes = ", ".join(f"{name}={value}" for name, value in place.axes)
    return {"hardware_id": place.hardware_id, "workload": place.workload, "axes": axes}


def _whole_blocks(experiment: Experiment, names: Sequence[str], found: Sequence[Contrast]) -> tuple[Floats, Floats]:
    """Levels (arms, factors) of -1 and +1, and log times (blocks, arms), of the blocks that all measured arms share.

    The baseline comes first; its replicates are averaged.
    """
    arms = [experiment.baseline, *(contrast.arm for contrast in found)]
    levels = np.array([[1.0 if name in treatments_of(arm) else -1.0 for name in names] for arm in arms])
    by_arm = [{(pair.session_id, pair.block_index): pair for pair in contrast.pairs} for contrast in found]
    shared = [key for key in (by_arm[0] if by_arm else {}) if all(key in pairs for pairs in by_arm)]
    logs = []
    for key in shared:
        pairs = [pairs[key] for pairs in by_arm]
        values = [treated_value(pair, METRICS[PRIMARY]) for pair in pairs]
        if all(value is not None and value > 0 for value in values):
            logs.append([pairs[0].baselines.mean_log(PRIMARY), *np.log(np.array(values, dtype=np.float64))])
    return levels, np.array(logs)
