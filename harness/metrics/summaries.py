"""Numbers that take more than one trial, as pure functions of records or of what two arms measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from harness.metrics.types import Summary
from harness.record import Outcome, TrialRecord

OUT_OF_MEMORY = (Outcome.OOM_DEVICE, Outcome.OOM_HOST)


def oom_rate(records: Iterable[TrialRecord]) -> float | None:
    """Share of an arm's launched trials that ran out of memory; None where none was launched."""
    launched = [record for record in records if record.duration_ns is not None]
    out = sum(record.outcome in OUT_OF_MEMORY for record in launched)
    return out / len(launched) if launched else None


def break_even_steps(before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    """Steps after which what an arm saves has paid for its longer start; both arms by metric, in ns.

    0 where it neither starts later nor steps more slowly, None where it never pays.
    """
    if not {"startup_time", "step_time_mean"} <= before.keys() & after.keys():
        return None
    longer = after["startup_time"] - before["startup_time"]
    saved = before["step_time_mean"] - after["step_time_mean"]
    if longer <= 0 <= saved:
        return 0.0
    return longer / saved if saved > 0 else None


SUMMARIES: Mapping[str, Summary] = MappingProxyType(
    {
        each.id: each
        for each in (
            Summary(
                id="oom_rate",
                unit="1",
                better="lower",
                summary="share of an arm's trials that ran out of memory",
                level="arm",
            ),
            Summary(
                id="break_even_steps",
                unit="steps",
                better="lower",
                summary="steps after which the time saved has paid for a longer start",
                level="comparison",
                needs="an arm that is faster",
            ),
            Summary(
                id="variance_share",
                unit="1",
                better="none",
                summary="share of the variance that a factor or an interaction explains",
                level="experiment",
                needs="a factorial design",
            ),
        )
    }
)
"""By id. The shares of variance are computed with the effects, in `harness/judge/factors.py`."""
