"""What a report is made from: the judgement and the records behind it, joined by place and arm, once for all panels."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy.typing as npt

from harness.judge.family import primary_metrics
from harness.judge.types import Comparison, Judgement
from harness.record import Fact, Outcome, TrialRecord
from harness.report.format import arm_name, doing, words
from harness.report.privacy import Filter
from harness.spec import Kind, Scalar

DETAILED = 40
WINDOWS_DRAWN = 30_000
"""At most so many comparisons get figures and tables of their own, and with at most so many windows in all: the first
of the table that have a block. So a report stays small enough to send."""

MEMORY_METRIC = "peak_memory"
"""What the table's memory column shows."""

Arrays = Mapping[str, npt.NDArray[Any]]
"""Columns of one trial's windows or samples, by name."""


@dataclass(frozen=True, kw_only=True)
class ReportContext:
    """What only the command that makes the report knows."""

    command: str
    """The command line that reproduces the results, as a user would type it in a checkout."""
    spec_text: str
    """The experiment as resolved, in TOML."""
    spec_hash: str
    result_hashes: Mapping[str, str]
    """SHA-256 of every result file read, by its path relative to the results folder."""
    generator: str
    """Name and version of what made the report: "harness 0.1.0"."""
    environments: Mapping[str, Sequence[Fact]] = field(default_factory=dict)
    """Facts by environment_id, where the trials ran in more than one."""
    private_words: tuple[str, ...] = ()
    """Host and user names that must never reach the page."""


@dataclass(frozen=True)
class Place:
    """Where a comparison was made: everything but the arm."""

    workload: str
    mode: str
    preset: str
    input: str
    axes: tuple[tuple[str, Scalar], ...] = ()
    hardware: str = ""
    """The class of hardware, where the judgement holds more than one."""

    @property
    def title(self) -> str:
        """The place in one line, the workload first."""
        varied = [*(f"{name}={value}" for name, value in self.axes), *([self.hardware] if self.hardware else [])]
        return " · ".join([self.workload, doing(self.mode), self.preset, self.input, *varied])

    @property
    def short(self) -> str:
        """The workload with the axes' values, for figures."""
        return " ".join([self.workload, *(f"{name}={value}" for name, value in self.axes), self.hardware]).strip()


@dataclass(frozen=True)
class Row:
    """One primary comparison with what belongs beside it."""

    number: int
    place: Place
    comparison: Comparison
    memory: Comparison | None
    """The same arm's peak memory."""
    others: tuple[Comparison, ...]
    """All secondary metrics of the same arm at the same place."""
    trials: tuple[TrialRecord, ...]
    """The treated arm's timing trials, in the order of blocks."""
    baseline_trials: tuple[TrialRecord, ...]
    one_of_several: bool = False
    """Whether the same arm is compared at the same place in another primary metric as well."""
    detailed: bool = False
    """Whether it has figures and tables of its own."""

    @property
    def anchor(self) -> str:
        return f"comparison-{self.number}"

    @property
    def arm(self) -> str:
        return arm_name(self.comparison.arm)

    @property
    def label(self) -> str:
        """The arm, with the metric where that is needed to tell two rows apart."""
        return f"{self.arm} ({words(self.comparison.metric)})" if self.one_of_several else self.arm

    @property
    def baseline(self) -> str:
        return arm_name(self.comparison.baseline)


@dataclass(frozen=True)
class ReportData:
    """Everything a panel may read; all texts are clean (see `privacy`)."""

    judgement: Judgement
    trials: tuple[TrialRecord, ...]
    windows: Mapping[str, Arrays]
    samples: Mapping[str, Arrays]
    facts: tuple[Fact, ...]
    context: ReportContext
    filter: Filter

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The primary comparisons in the table's order: places as they first appear, arms as judged."""
        primary = [each for each in self.judgement.comparisons if each.primary]
        ordered = sorted(primary, key=lambda each: self._place_order[self.place_of(each)])
        return self._marked(tuple(self._row(index, each) for index, each in enumerate(ordered, 1)))

    def _marked(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        """The same rows; the first that have blocks are marked for figures of their own."""
        marked, left, windows = [], DETAILED, WINDOWS_DRAWN
        for row in rows:
            trials = (*row.trials, *row.baseline_trials) if row.comparison.points else ()
            windows -= sum(len(self.windows.get(each.trial_id, {}).get("host_ns", ())) for each in trials)
            left -= bool(trials)
            marked.append(replace(row, detailed=bool(trials) and left >= 0 and windows >= 0))
        return tuple(marked)

    @cached_property
    def detailed(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.detailed)

    @cached_property
    def undetailed_count(self) -> int:
        """Comparisons with blocks that have no figures of their own."""
        return sum(1 for row in self.rows if row.comparison.points and not row.detailed)

    @cached_property
    def groups(self) -> tuple[tuple[Place, str, tuple[Row, ...]], ...]:
        """Rows by place and metric, in the table's order."""
        found: dict[tuple[Place, str], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row.place, row.comparison.metric), []).append(row)
        return tuple((place, metric, tuple(rows)) for (place, metric), rows in found.items())

    @cached_property
    def places(self) -> tuple[Place, ...]:
        return tuple(self._place_order)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The primary metrics, as a rule one."""
        return tuple(dict.fromkeys(row.comparison.metric for row in self.rows))

    @cached_property
    def timing_trials(self) -> tuple[TrialRecord, ...]:
        return tuple(each for each in self.trials if each.kind == Kind.TIMING)

    @cached_property
    def failed_trials(self) -> tuple[TrialRecord, ...]:
        """Trials and skips that gave no number, in the order of their start."""
        failed = [each for each in self.trials if each.outcome != Outcome.OK]
        return tuple(sorted(failed, key=lambda each: (each.started_at, each.trial_id)))

    def place_of(self, comparison: Comparison) -> Place:
        axes = tuple(sorted(comparison.axes.items()))
        hardware = self._hardware_names.get(comparison.hardware_id, "")
        return Place(comparison.workload, comparison.mode, comparison.preset, comparison.input, axes, hardware)

    @cached_property
    def _hardware_names(self) -> Mapping[str, str]:
        """A name for every class of hardware by its id; empty where there is only one."""
        devices: dict[str, set[str]] = {}
        for each in self.timing_trials:
            devices.setdefault(each.hardware_id, set()).add(each.device)
        classes = {each.hardware_id for each in self.judgement.comparisons if each.hardware_id}
        if len(classes) < 2:
            return {}
        return {name: f"{' and '.join(sorted(devices.get(name, ())))} {name[:8]}".strip() for name in sorted(classes)}

    def decoded(self, text: str) -> dict[str, Any]:
        """A JSON column as a dict, cleaned; empty where it is not an object."""
        try:
            value = json.loads(text)
        except ValueError:
            return {}
        return self.filter.clean(value) if isinstance(value, dict) else {}

    @cached_property
    def _place_order(self) -> dict[Place, int]:
        primary = (self.place_of(each) for each in self.judgement.comparisons if each.primary)
        return {place: index for index, place in enumerate(dict.fromkeys(primary))}

    @cached_property
    def _secondary(self) -> dict[tuple[Place, str], tuple[Comparison, ...]]:
        found: dict[tuple[Place, str], list[Comparison]] = {}
        for each in self.judgement.comparisons:
            if not each.primary:
                found.setdefault((self.place_of(each), each.arm), []).append(each)
        return {key: tuple(comparisons) for key, comparisons in found.items()}

    @cached_property
    def _trials_by_cell(self) -> dict[tuple[Place, str], tuple[TrialRecord, ...]]:
        axes = sorted({name for each in self.judgement.comparisons for name in each.axes})
        found: dict[tuple[Place, str], list[TrialRecord]] = {}
        params: dict[str, tuple[tuple[str, Scalar], ...]] = {}
        for each in self.timing_trials:
            if each.params_json not in params:
                decoded = self.decoded(each.params_json) if axes else {}
                params[each.params_json] = tuple((name, decoded[name]) for name in axes if name in decoded)
            hardware = self._hardware_names.get(each.hardware_id, "")
            place = Place(each.workload, each.mode, each.preset, each.input, params[each.params_json], hardware)
            found.setdefault((place, each.arm), []).append(each)
        return {key: tuple(sorted(trials, key=_order)) for key, trials in found.items()}

    def _row(self, number: int, comparison: Comparison) -> Row:
        place = self.place_of(comparison)
        others = self._secondary.get((place, comparison.arm), ())
        return Row(
            number=number,
            place=place,
            comparison=comparison,
            memory=next((each for each in others if each.metric == MEMORY_METRIC), None),
            others=others,
            trials=self._trials_by_cell.get((place, comparison.arm), ()),
            baseline_trials=self._trials_by_cell.get((place, comparison.baseline), ()),
            one_of_several=len(primary_metrics(self.judgement.experiment)) > 1,
        )


def _order(trial: TrialRecord) -> tuple[str, int, int, str]:
    return (
        trial.session_id,
        -1 if trial.block_index is None else trial.block_index,
        -1 if trial.position is None else trial.position,
        trial.trial_id,
    )


def passed(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """The trials that gave a number."""
    return [each for each in trials if each.outcome == Outcome.OK]


def column(trials: Iterable[TrialRecord], name: str) -> list[float]:
    """The known values of one column over the trials that passed."""
    values = (getattr(each, name) for each in passed(trials))
    return [float(value) for value in values if value is not None]


def median(values: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return statistics.median(values) if values else None
