"""The environment: what was read of the machine and of the running processes, with every difference marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.record import Fact
from harness.report.data import ReportData, passed
from harness.report.format import arm_name, count
from harness.report.view import Cell, Panel, Table, table

STATES = {
    "unsupported": "not supported here",
    "denied": "not known: reading it was denied",
    "absent": "absent",
    "error": "not known: reading it failed",
}
KINDS = {
    "hardware": "Hardware: equal wherever numbers are compared",
    "identity": "Identity of the software environment: equal wherever trials are pooled",
    "context": "Context: recorded, not part of an identity",
}
DIFFERS = "≠"
"""Marks a row that differs."""


@dataclass(frozen=True)
class Environment:
    """The section: tables in the open, and those behind a fold."""

    remark: str
    open_tables: tuple[Table, ...]
    folded: tuple[tuple[str, Table], ...]
    """With the line that stands on the fold."""


def panel(data: ReportData) -> Panel:
    """Differences in the open, what is equal behind folds."""
    environments = {name: data.filter.facts(facts) for name, facts in sorted(data.context.environments.items())}
    several = _between_environments(environments)
    by_arm, equal = _runtime(data)
    hardware = [_fact_row(fact) for fact in data.facts if fact.kind == "hardware"]
    opened = [_facts_table(KINDS["hardware"], hardware)] if hardware else []
    opened += [each for each in (several, by_arm) if each is not None]
    folded = []
    for kind in ("identity", "context"):
        rows = [_fact_row(fact) for fact in data.facts if fact.kind == kind]
        if rows:
            folded.append(
                (f"{KINDS[kind].split(':')[0]} ({count(len(rows), 'fact')})", _facts_table(KINDS[kind], rows))
            )
    if equal is not None:
        folded.append(("Read back in the processes, equal in all arms", equal))
    environment = Environment(_remark(data, len(environments), by_arm is not None), tuple(opened), tuple(folded))
    return Panel("environment", "Environment", "environment.html", environment)


def _remark(data: ReportData, environments: int, arms_differ: bool) -> str:
    machines = len({each.machine_id for each in data.timing_trials if each.machine_id})
    where = f"{count(max(machines, 1), 'machine')}, {count(max(environments, 1), 'environment')}."
    arms = " Facts that an arm changes are marked." if arms_differ else ""
    return f"{where}{arms} A fact that could not be read says so; it never compares equal to anything."


def _facts_table(caption: str, rows: list[tuple[str | Cell, ...]]) -> Table:
    return table(caption, "fact | value | read from", rows, style="wordy")


def _fact_row(fact: Fact) -> tuple[str | Cell, ...]:
    return fact.path, Cell(_value(fact), style="" if fact.state == "ok" else "quiet"), fact.source


def _value(fact: Fact) -> str:
    if fact.state != "ok" or fact.value is None:
        return STATES.get(fact.state, "not known")
    return f"{fact.value} {fact.unit}".strip()


def _between_environments(environments: Mapping[str, Sequence[Fact]]) -> Table | None:
    """Facts that are not the same in all environments."""
    if len(environments) < 2:
        return None
    values = {name: {fact.path: _value(fact) for fact in facts} for name, facts in environments.items()}
    paths = sorted({path for facts in values.values() for path in facts})
    rows: list[tuple[str | Cell, ...]] = []
    for path in paths:
        row = [values[name].get(path, "not recorded") for name in environments]
        if len(set(row)) > 1:
            rows.append((f"{DIFFERS} {path}", *(Cell(text, style="differs") for text in row)))
    heads = " | ".join(["fact", *(f"environment {name[:9]}" for name in environments)])
    return table("Differences between environments", heads, rows, style="wordy") if rows else None


# ------------------------------------------------------------------------------------------------ runtime facts by arm


def _runtime(data: ReportData) -> tuple[Table | None, Table | None]:
    """Facts read back in the children: those that differ between arms, and those that do not."""
    baselines = {row.comparison.baseline for row in data.rows}
    found: dict[str, dict[str, set[str]]] = {}
    seen: dict[tuple[str, str], None] = {}
    for trial in passed(data.timing_trials):
        seen[(trial.arm, trial.facts_json)] = None
    for arm, text in seen:
        for path, value in _flat(data.decoded(text)):
            found.setdefault(path, {}).setdefault(arm, set()).add(str(value))
    differing: list[tuple[str | Cell, ...]] = []
    equal: list[tuple[str | Cell, ...]] = []
    for path, arms in sorted(found.items()):
        texts = {arm: " or ".join(sorted(values)) for arm, values in sorted(arms.items())}
        usual = next((texts[arm] for arm in sorted(baselines) if arm in texts), next(iter(texts.values())))
        others = [f"{arm_name(arm)}: {text}" for arm, text in texts.items() if text != usual]
        if others:
            differing.append((f"{DIFFERS} {path}", usual, Cell("; ".join(others), style="differs")))
        else:
            equal.append((path, usual))
    by_arm = table(
        "Read back in the processes: what differs between arms", "fact | baseline | other arms", differing, "wordy"
    )
    same = table("Read back in the processes: equal in all arms", "fact | value", equal)
    return by_arm if differing else None, same if equal else None


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested facts as dotted paths."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
