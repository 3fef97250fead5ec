"""Whether two arms did the same work under the same settings, but for what their treatments declare to change."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from harness.record import TrialRecord

WORK = ("workload", "mode", "preset", "input", "params_json", "data_digest", "rank_count", "items_per_step")
"""Columns that say how much of what is done in a step. A treatment declares them by these names."""

KEPT = frozenset({"kept"})
"""Facts below this name are what a run left behind ("kept.output"): no two runs need have them equal."""


def undeclared_differences(treated: TrialRecord, baseline: TrialRecord) -> list[str]:
    """What differs between the two trials and is declared by neither arm: "items_per_step: 4 before, 8 after".

    Compares the columns of `WORK` and the runtime facts that both processes read back. A declaration covers the fact of
    its name and those below it ("torch" covers "torch.version").
    """
    declared = KEPT | _names(treated.declared_changes_json) | _names(baseline.declared_changes_json)
    before, after = _work(baseline), _work(treated)
    if treated.facts_json != baseline.facts_json:
        before, after = before | _facts(baseline.facts_json), after | _facts(treated.facts_json)
    return [
        f"{name}: {before[name]} before, {after[name]} after"
        for name in before
        if name in after and before[name] != after[name] and not _covered(name, declared)
    ]


def _work(record: TrialRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in WORK}


@cache
def _facts(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def _names(text: str | None) -> frozenset[str]:
    return frozenset(json.loads(text or "[]"))


def _covered(name: str, declared: frozenset[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in declared)
