"""What each rank of an arm did and held: its memory, its share of the work, what it sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from harness.report.data import Row, median, passed
from harness.report.format import quantities
from harness.report.view import Table, table

COLUMNS = (
    ("items a step", "items_per_step", ""),
    ("resident (host)", "peak_host_bytes", "bytes"),
    ("allocated (device)", "peak_allocated_bytes", "bytes"),
    ("reserved (device)", "peak_reserved_bytes", "bytes"),
    ("sent a step", "comm_bytes", "bytes"),
    ("exchanging", "comm_ns", "ns"),
)


def view(row: Row) -> Table | None:
    """Both arms' ranks, median over processes; None where every arm ran as one process."""
    ranks = [
        (f"{arm}, rank {number}", values)
        for arm, trials in (("baseline", row.baseline_trials), ("treated", row.trials))
        for number, values in enumerate(_by_rank([json.loads(trial.ranks_json) for trial in passed(trials)]))
    ]
    shown = [column for column in COLUMNS if any(values[column[1]] is not None for _, values in ranks)]
    if not ranks or not shown:
        return None
    texts = [quantities([values[field] for _, values in ranks], unit) for _, field, unit in shown]
    rows = [(name, *(text[index] for text in texts)) for index, (name, _) in enumerate(ranks)]
    heads = " | ".join(["rank", *(f"# {name}" for name, _, _ in shown)])
    return table("Ranks, median over processes; memory is the peak of the timed part", heads, list(rows))


def _by_rank(trials: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, float | None]]:
    """For each rank the median of its columns over trials; trials that ran as one process list none."""
    known = [ranks for ranks in trials if ranks]
    return [
        {field: median([rank[field] for rank in same if rank.get(field) is not None]) for _, field, _ in COLUMNS}
        for same in zip(*known, strict=False)
    ]
