"""Small experiments written by hand, for the judge's tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from harness.judge import judge
from harness.judge.types import Comparison, Judgement
from harness.record import Outcome, TrialRecord
from harness.spec import Analysis, Experiment

STEP_NS = 100_000_000
Times = Callable[[str, int, int], float]
"""(arm, block, position) -> time of a step relative to STEP_NS"""


class Run:
    """Trials of one experiment, built block by block."""

    def __init__(self, arms: Sequence[str] = ("x",), baselines: int = 1, **experiment: Any) -> None:
        settings: dict[str, Any] = {"workloads": ("w",), "preset": "tiny", **experiment}
        self.experiment = Experiment(arms=tuple(arms), **settings)
        self.baselines = baselines
        self.records: list[TrialRecord] = []
        self.windows: dict[str, Mapping[str, Any]] = {}

    def blocks(self, count: int, times: Times, session: str = "s1", first: int = 0, **columns: Any) -> Run:
        """Add blocks with every arm, in an order that is reversed in every second block."""
        for block in range(first, first + count):
            members = [*self.experiment.arms, *[self.experiment.baseline] * self.baselines]
            for position, arm in enumerate(members if block % 2 else members[::-1]):
                self.trial(arm, block, position, times(arm, block, position), session=session, **columns)
        return self

    def trial(
        self, arm: str, block: int | None, position: int | None, time: float = 1.0, **columns: Any
    ) -> TrialRecord:
        """Add one trial of 15 windows; columns override those of the record."""
        session = columns.pop("session", "s1")
        number = len(self.records)
        record = TrialRecord(
            trial_id=f"t{number:05d}", spec_id="spec", session_id=session, block_index=block, position=position,
            code_id=f"code {arm}", base_env_id="env", hardware_id="hardware", machine_id="machine", workload="w",
            preset="tiny", arm=arm, is_baseline=arm == self.experiment.baseline, started_at=f"{number:09d}",
            items_per_step=4.0, peak_host_bytes=1_000_000, startup_total_ns=2_000_000_000,
        )  # fmt: skip
        for name, value in columns.items():
            setattr(record, name, value)
        ripple = 1 + 0.001 * np.cos(np.arange(15) * 2.4)
        host = np.round(STEP_NS * time * ripple).astype(np.int64)
        self.windows[record.trial_id] = {
            "rank": np.zeros(15, dtype=int), "window_index": np.arange(15), "step_count": np.ones(15, dtype=int),
            "host_ns": host, "data_wait_ns": host // 10, "enqueue_ns": np.array([None] * 15),
        }  # fmt: skip
        self.records.append(record)
        return record

    def skip(self, arm: str, reason: str, outcome: Outcome = Outcome.NOT_APPLICABLE) -> Run:
        self.trial(arm, None, None, outcome=outcome, reason=reason)
        return self

    def judge(self, last_look: bool = True) -> Judgement:
        return judge(self.experiment, "spec", self.records, self.windows, last_look=last_look)

    def verdict(self, arm: str = "x", metric: str = "step_time", last_look: bool = True) -> Comparison:
        found = [c for c in self.judge(last_look).comparisons if c.arm == arm and c.metric == metric]
        assert len(found) == 1
        return found[0]


def jitter(effects: Mapping[str, float], size: float = 0.003, seed: int = 0) -> Times:
    """Times with a true relative time by arm (1 where not named) and a little noise."""

    def times(arm: str, block: int, position: int) -> float:
        rng = np.random.default_rng([seed, block, position])
        return effects.get(arm, 1.0) * float(np.exp(size * rng.standard_normal()))

    return times


def analysis(**settings: Any) -> Analysis:
    return Analysis(**settings)
