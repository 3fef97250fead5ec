"""From a claim and what was measured to a verdict on the claim, by the rules at the head of experiments/claims.toml."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.judge.types import Comparison, Word
from harness.metrics import METRICS
from harness.spec import Claim

NEAR = 0.2
"""A single number stands for the range around it that is this share of it wide, each way."""


class ClaimWord(enum.StrEnum):
    """The verdict words of claims."""

    HELD = "held"
    EXCEEDED = "exceeded"
    MISSED = "missed"
    CONTRADICTED = "contradicted"
    INCONCLUSIVE = "inconclusive"
    UNTESTABLE = "untestable here"
    NO_VERDICT = "no verdict"
    """A statement about the baseline, or one without a number or a direction."""
    NOT_MEASURED = "not measured"
    """It can be tested here, and has not been yet."""


BEST_FIRST = (
    ClaimWord.HELD,
    ClaimWord.EXCEEDED,
    ClaimWord.INCONCLUSIVE,
    ClaimWord.MISSED,
    ClaimWord.CONTRADICTED,
)
"""A claim that can be read in several ways is held if one of them holds."""


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """What came of a claim: the word, a sentence why, and the claimed range beside the measured interval."""

    word: ClaimWord
    reason: str
    metric: str = ""
    claimed: tuple[float, float] | None = None
    """The claimed range of the metric's relative change; None for a claim of a direction only."""
    change: float | None = None
    """Measured: after / before - 1."""
    low: float | None = None
    high: float | None = None
    level: float | None = None
    """Of the interval from low to high."""
    blocks: int = 0


@dataclass(frozen=True, kw_only=True)
class JudgedClaim:
    """One row of the ledger as it is shown: the claim, where and how it was tested, and what came of it."""

    claim: Claim
    verdict: ClaimVerdict
    workload: str = ""
    arm: str = ""
    baseline: str = ""
    experiment: str = ""
    spec_id: str = ""
    """Of the stored experiment that holds its cells; empty where none does."""
    note: str = ""

    @property
    def status(self) -> str:
        """How far it has come: tested only where blocks of it are stored."""
        if self.verdict.blocks:
            return "tested"
        if self.verdict.word is ClaimWord.NOT_MEASURED:
            return "planned"
        return "untestable here" if self.verdict.word is ClaimWord.UNTESTABLE else str(self.verdict.word)


@dataclass(frozen=True)
class Reading:
    """One way to read a claim: the metric, and the range or the direction that is claimed for its change."""

    metric: str
    low: float | None = None
    high: float | None = None
    direction: str = ""

    @property
    def sign(self) -> int:
        """+1 where the claim is about a rise, -1 about a fall."""
        if self.low is None or self.high is None:
            return 1 if self.direction == "higher" else -1
        return 1 if self.low + self.high > 0 else -1


# ------------------------------------------------------------------------------------------------ what is claimed


def readings(claim: Claim) -> tuple[Reading, ...]:
    """The ways to read a claim; none where it is no claim about a change."""
    if claim.readings:
        return tuple(Reading(metric, *_range(low, high)) for metric, low, high in claim.readings)
    if claim.change is not None:
        low, high = claim.change if isinstance(claim.change, tuple) else (claim.change, claim.change)
        exact = claim.bound == "at_most"
        return (Reading(claim.metric, *((low, high) if exact else _range(low, high))),)
    if claim.direction and claim.metric:
        return (Reading(claim.metric, direction=claim.direction),)
    return ()


def _range(low: float, high: float) -> tuple[float, float]:
    """The range as stated, or the one that a single number stands for."""
    if low != high:
        return min(low, high), max(low, high)
    ends = (low * (1 - NEAR), low * (1 + NEAR))
    return min(ends), max(ends)


# ------------------------------------------------------------------------------------------------ the verdict


def judge_claim(
    claim: Claim, comparisons: Sequence[Comparison], *, rope: float, device: str, obstacle: str = ""
) -> ClaimVerdict:
    """The verdict on one claim.

    `comparisons` are those of the claim's own arm with its baseline, in all metrics; `obstacle` says why it cannot be
    tested here. A claim about GPUs gets no verdict on a CPU: what was measured there is shown as an analogue.
    """
    ways = readings(claim)
    found = [_judged(way, comparisons, rope) for way in ways]
    best = min(found, key=lambda each: _rank(each.word), default=None)
    if claim.scope == "cuda" and device != "cuda":
        analogue = best is not None and best.blocks > 0
        beside = "; what this CPU shows is an analogue" if analogue else f"; {obstacle}" if obstacle else ""
        shown = best if analogue and best is not None else _untested(ways)
        return replace(shown, word=ClaimWord.UNTESTABLE, reason=f"the claim is about GPUs{beside}")
    if obstacle:
        return replace(_untested(ways), word=ClaimWord.UNTESTABLE, reason=obstacle)
    if best is None:
        what = (
            "a statement about the baseline" if claim.value is not None else "states neither a number nor a direction"
        )
        return ClaimVerdict(word=ClaimWord.NO_VERDICT, reason=what, metric=claim.metric)
    return best


def _rank(word: ClaimWord) -> int:
    return BEST_FIRST.index(word) if word in BEST_FIRST else len(BEST_FIRST)


def _untested(ways: Sequence[Reading]) -> ClaimVerdict:
    """What is claimed, with nothing measured beside it."""
    if not ways:
        return ClaimVerdict(word=ClaimWord.NOT_MEASURED, reason="")
    return _beside(ways[0], ClaimWord.NOT_MEASURED, "")


def _judged(way: Reading, comparisons: Sequence[Comparison], rope: float) -> ClaimVerdict:
    """The verdict by one reading of the claim."""
    comparison = next((each for each in comparisons if each.metric == way.metric), None)
    if comparison is None:
        measured = any(each.blocks for each in comparisons)
        failed = next((each for each in comparisons if each.primary), None)
        if failed is not None and failed.verdict in (Word.NOT_RUN, Word.INVALID):
            return _without_number(way, failed)
        reason = f"no {way.metric} was found in what was measured" if measured else "no trial of it is stored yet"
        return _beside(way, ClaimWord.INCONCLUSIVE if measured else ClaimWord.NOT_MEASURED, reason)
    if comparison.verdict in (Word.NOT_RUN, Word.INVALID):
        return _without_number(way, comparison)
    interval = change_interval(comparison)
    if interval is None:
        return replace(
            _beside(way, ClaimWord.INCONCLUSIVE, _no_interval(comparison)),
            blocks=comparison.blocks,
            change=_change(comparison),
        )
    word, reason = word_and_reason(way, *interval, rope)
    return replace(
        _beside(way, word, reason),
        change=_change(comparison),
        low=interval[0],
        high=interval[1],
        level=comparison.ci_level,
        blocks=comparison.blocks,
    )


def _beside(way: Reading, word: ClaimWord, reason: str) -> ClaimVerdict:
    claimed = None if way.low is None or way.high is None else (way.low, way.high)
    return ClaimVerdict(word=word, reason=reason, metric=way.metric, claimed=claimed)


def _without_number(way: Reading, comparison: Comparison) -> ClaimVerdict:
    """Nothing could be measured at all, or its numbers are withheld."""
    never = comparison.verdict is Word.NOT_RUN
    word = ClaimWord.UNTESTABLE if never else ClaimWord.INCONCLUSIVE
    return replace(_beside(way, word, comparison.reason), blocks=comparison.blocks)


def _no_interval(comparison: Comparison) -> str:
    if comparison.speedup is None and comparison.before is not None and comparison.after is not None:
        return f"{comparison.before:.4g} before and {comparison.after:.4g} after: no ratio, so no interval"
    return comparison.reason or "too few blocks for an interval"


def change_interval(comparison: Comparison) -> tuple[float, float] | None:
    """The interval of after / before - 1; a comparison holds that of the speedup, which is its inverse for most."""
    if comparison.ci_low is None or comparison.ci_high is None:
        return None
    if METRICS[comparison.metric].better == "higher":
        return comparison.ci_low - 1, comparison.ci_high - 1
    return 1 / comparison.ci_high - 1, 1 / comparison.ci_low - 1


def _change(comparison: Comparison) -> float | None:
    if not comparison.speedup:
        return None
    ratio = comparison.speedup if METRICS[comparison.metric].better == "higher" else 1 / comparison.speedup
    return ratio - 1


def word_and_reason(way: Reading, low: float, high: float, rope: float) -> tuple[ClaimWord, str]:
    """The verdict from the interval of the change, by one reading of the claim."""
    equivalent = -rope < low and high < rope
    if way.sign < 0:
        low, high = -high, -low
    if way.low is None or way.high is None:
        return _directional(low, high, rope, equivalent)
    ends = (way.sign * way.low, way.sign * way.high)
    near, far = min(ends), max(ends)
    if low > 0 and low <= far and high >= near:
        return ClaimWord.HELD, "the interval overlaps the claimed range and excludes no effect"
    if low > far:
        return ClaimWord.EXCEEDED, "the effect is larger than claimed"
    if equivalent:
        return ClaimWord.MISSED, f"any effect is smaller than {rope:.3g}"
    if high < 0:
        return ClaimWord.CONTRADICTED, "the effect goes the other way"
    if high < near:
        return ClaimWord.MISSED, "the interval lies wholly short of the claimed range"
    return ClaimWord.INCONCLUSIVE, "the interval holds both the claimed range and no effect"


def _directional(low: float, high: float, rope: float, equivalent: bool) -> tuple[ClaimWord, str]:
    """Low and high count in the claimed direction."""
    if equivalent:
        return ClaimWord.MISSED, f"any effect is smaller than {rope:.3g}"
    if low > rope:
        return ClaimWord.HELD, "the effect goes the way that was said, and is large enough to matter"
    if high < 0:
        return ClaimWord.CONTRADICTED, "the effect goes the other way"
    if low > 0:
        return ClaimWord.INCONCLUSIVE, "the effect goes the way that was said, and may be too small to matter"
    return ClaimWord.INCONCLUSIVE, "the interval holds effects either way"
