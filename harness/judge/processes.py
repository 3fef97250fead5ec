"""From stored windows to processes with a steady start, and to the metric values that a block is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.judge.estimate import Floats
from harness.metrics import METRICS, WindowTable
from harness.record import TrialRecord
from harness.steady import FEWEST_KEPT, FEWEST_WINDOWS, KEPT_SHARE, earliest_start, find_steady_batch

COLUMNS = ("step_count", "host_ns", "enqueue_ns", "device_ns", "data_wait_ns", "compiles", "reserved_bytes")


@dataclass(frozen=True, eq=False)
class Process:
    """One trial that ran to its end: its windows (the slowest rank's, where there are several) and its steady start."""

    record: TrialRecord
    windows: Mapping[str, Floats]
    per_step_ns: Floats
    start: int
    steady: bool
    autocorrelation: float
    _values: dict[tuple[str, int], float | None] = field(default_factory=dict, repr=False)
    _kept: dict[int, WindowTable] = field(default_factory=dict, repr=False)

    @property
    def latest_start(self) -> int:
        """The latest cut that leaves enough windows."""
        count = len(self.per_step_ns)
        return max(self.start, count - max(FEWEST_KEPT, int(np.ceil(KEPT_SHARE * count))))

    def value(self, metric: str, start: int) -> float | None:
        """The metric over the windows from `start` on."""
        key = (metric, start)
        if key not in self._values:
            if start not in self._kept:
                self._kept[start] = {name: column[start:] for name, column in self.windows.items()}
            self._values[key] = METRICS[metric].compute(self.record, self._kept[start])
        return self._values[key]

    def log_steps(self, start: int) -> Floats:
        """Log time per step of the windows from `start` on."""
        return np.log(self.per_step_ns[start:])


def processes(records: Iterable[TrialRecord], windows: Mapping[str, WindowTable]) -> dict[str, Process]:
    """The processes of these trials by trial id, each with its own steady start; trials without windows are not
    steady.
    """
    tables = {record.trial_id: (record, slowest_rank(windows.get(record.trial_id, {}))) for record in records}
    by_length: dict[int, list[str]] = {}
    for trial_id, (_, table) in tables.items():
        by_length.setdefault(len(table["host_ns"]), []).append(trial_id)
    found: dict[str, Process] = {}
    for trial_ids in by_length.values():
        for trial_id, process in zip(trial_ids, _of_one_length([tables[each] for each in trial_ids]), strict=True):
            found[trial_id] = process
    return {trial_id: found[trial_id] for trial_id in tables}


def slowest_rank(table: WindowTable) -> dict[str, Floats]:
    """The windows in order, of several ranks the slowest one's; compiles and reserved bytes are the largest rank's."""
    columns = {name: np.asarray(table[name], dtype=np.float64) for name in COLUMNS if name in table}
    if "host_ns" not in columns:
        return {"host_ns": np.zeros(0), "step_count": np.zeros(0)}
    index = np.asarray(table["window_index"]) if "window_index" in table else np.arange(len(columns["host_ns"]))
    rank = np.asarray(table["rank"]) if "rank" in table else np.zeros(len(index), dtype=int)
    if not rank.any():
        order = np.argsort(index, kind="stable")
        return {name: column[order] for name, column in columns.items()}
    slowest = [max(np.flatnonzero(index == one), key=lambda row: columns["host_ns"][row]) for one in np.unique(index)]
    merged = {name: column[slowest] for name, column in columns.items()}
    for name in {"compiles", "reserved_bytes"} & set(columns):
        merged[name] = np.array([columns[name][index == one].max() for one in np.unique(index)])
    return merged


def _of_one_length(tables: Sequence[tuple[TrialRecord, dict[str, Floats]]]) -> list[Process]:
    times = np.stack([table["host_ns"] / table["step_count"] for _, table in tables])
    series, count = times.shape
    usable = np.isfinite(times).all(axis=1) & (times > 0).all(axis=1) & (count >= FEWEST_WINDOWS)
    start, ok, rho = np.full(series, count), np.zeros(series, dtype=bool), np.zeros(series)
    if usable.any():
        nothing = np.zeros(0)
        earliest = [
            earliest_start(table.get("compiles", nothing), table.get("reserved_bytes", nothing)) for _, table in tables
        ]
        batch = find_steady_batch(times[usable], np.array(earliest)[usable])
        start[usable], ok[usable], rho[usable] = batch.start, batch.ok, batch.autocorrelation
    return [
        Process(record, table, times[row], int(start[row]), bool(ok[row]), float(rho[row]))
        for row, (record, table) in enumerate(tables)
    ]


def common_start(together: Sequence[Process]) -> tuple[int, ...]:
    """Where to cut each of the processes that are compared: at the latest of their starts, as far as their windows
    allow.
    """
    latest = max(process.start for process in together)
    return tuple(min(latest, process.latest_start) for process in together)
