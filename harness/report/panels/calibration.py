"""What this machine can tell apart: the A/A that the verdicts are to be read with, and every session there was."""

from __future__ import annotations

from harness.judge.types import Calibration, SessionSummary
from harness.report.data import ReportData
from harness.report.format import percent
from harness.report.view import Panel, table

SHOWN_BLOCKS = (4, 9, 28)


def panel(data: ReportData) -> Panel | None:
    """The calibrations; where none is at hand the threats say so."""
    if not data.judgement.calibrations:
        return None
    found = " | ".join(f"# found with {blocks} blocks" for blocks in SHOWN_BLOCKS)
    columns = (
        "workload | measured | # blocks | # identical pairs | # outside their 95\u00a0% interval | # expected "
        f"| # judged different | # noise floor | {found} | # a place later in the block | # blocks alike"
    )
    caption = (
        "Identical runs compared with each other on this machine. Noise floor: standard deviation of a block's "
        "difference between two runs. Found: the smallest change that a comparison finds in four of five cases"
    )
    rows = [_row(each) for each in data.judgement.calibrations]
    return Panel("calibration", "What this machine can tell apart", "plain.html", (table(caption, columns, rows),))


def _row(each: Calibration) -> tuple[str, ...]:
    return (
        each.label,
        f"{each.measured_at[:16].replace('T', ' ')} UTC",
        str(each.blocks),
        str(each.comparisons),
        str(each.false_positives),
        f"{each.comparisons / 20:.1f}",
        str(each.claims),
        percent(each.noise_floor),
        *(percent(each.detectable[blocks]) for blocks in SHOWN_BLOCKS),
        f"{each.order_effect:+.2%} (p\u00a0{each.order_p:.2g})",
        f"{each.dependence:+.2f} (p\u00a0{each.dependence_p:.2g})",
    )


def sessions(data: ReportData) -> Panel | None:
    """Every session of the experiment, so that none can be left out unseen."""
    if not data.judgement.history:
        return None
    columns = "session | # started | # last trial | # blocks | # trials | # failed | # timed trials that count"
    rows = [_session(number, each) for number, each in enumerate(data.judgement.history, 1)]
    caption = "All sessions of this experiment, whose file was written before the first of them"
    return Panel("sessions", "Sessions", "plain.html", (table(caption, columns, rows),))


def _session(number: int, each: SessionSummary) -> tuple[str, ...]:
    none = "none: superseded, or nothing timed"
    return (
        f"{number}: {each.session_id[:13]}",
        f"{each.started_at[:16].replace('T', ' ')} UTC",
        f"{each.ended_at[:16].replace('T', ' ')} UTC",
        str(each.blocks),
        str(each.trials),
        str(each.failed),
        str(each.counted) if each.counted else none,
    )
