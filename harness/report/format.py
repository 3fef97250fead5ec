"""Writes numbers and names for a reader: as many digits as the interval supports, one unit for before and after."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.judge.types import Comparison, Word

SPACE = "\u00a0"
"""Between a number and its unit: does not break at a line's end."""
UNKNOWN = "not known"

SCALES: dict[str, tuple[tuple[str, float], ...]] = {
    "ns": (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)),
    "bytes": (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30)),
    "mw": (("mW", 1.0), ("W", 1e3)),
    "mj": (("mJ", 1.0), ("J", 1e3), ("kJ", 1e6)),
    "share": (("%", 0.01),),
    "1": (("%", 0.01),),
}
"""By the unit as stored: the units a reader sees, each with its size."""


# ------------------------------------------------------------------------------------------------ numbers


def decimals(half_width: float, most: int = 4) -> int:
    """How many decimals a value with this half-width deserves.

    The half-width's first digit is the last one printed, or its second where the first is a 1 or a 2.
    """
    if not math.isfinite(half_width) or half_width <= 0:
        return 3
    exponent = math.floor(math.log10(half_width))
    leading = half_width / 10.0**exponent
    return min(max(0, -exponent + (1 if leading < 2.95 else 0)), most)


def fixed(value: float | None, places: int) -> str:
    """A number with so many decimals and a real minus sign; what is not a number is said in words."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = f"{value:.{places}f}"
    return text.replace("-", "\u2212") if float(text) != 0 else text.lstrip("-")


def significant(value: float | None, digits: int = 3) -> str:
    """A number with so many significant digits, for figures that have no interval."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    return fixed(value, min(max(0, digits - 1 - math.floor(math.log10(abs(value)))), 9))


def speedup(value: float | None, low: float | None, high: float | None) -> str:
    """A ratio with the digits that its interval supports."""
    return fixed(value, _ratio_decimals(value, low, high))


def interval(low: float | None, high: float | None, between: str = " to ") -> str:
    """Both ends of a ratio's interval, with the same digits as the ratio itself."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return UNKNOWN
    places = _ratio_decimals(None, low, high)
    return f"{fixed(low, places)}{between}{fixed(high, places)}"


def _ratio_decimals(value: float | None, low: float | None, high: float | None) -> int:
    if low is None or high is None:
        return 2
    return max(1, decimals((high - low) / 2))


def relative_half_width(low: float | None, high: float | None) -> float | None:
    """Half the width of a ratio's interval, relative to its middle."""
    if low is None or high is None or not (low > 0 and math.isfinite(high)):
        return None
    return (high - low) / (high + low)


def quantities(values: Sequence[float | None], unit: str, relative: float | None = None) -> list[str]:
    """Values in one common unit, chosen by the largest; digits follow the relative half-width where one is known."""
    known = [abs(value) for value in values if value is not None and math.isfinite(value)]
    name, size = _scale(max(known, default=0.0), unit)
    return [_quantity(value, name, size, relative) for value in values]


def quantity(value: float | None, unit: str, relative: float | None = None) -> str:
    """One value in a unit that suits it."""
    return quantities([value], unit, relative)[0]


def _quantity(value: float | None, name: str, size: float, relative: float | None) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    scaled = value / size
    if name == "%":
        number = significant(scaled, 2)
    elif relative:
        number = fixed(scaled, decimals(abs(scaled) * relative))
    else:
        number = significant(scaled)
    return f"{number}{SPACE}{name}".rstrip()


def time_scale(largest_ns: float) -> tuple[str, float]:
    """The unit that suits a time, and its size in nanoseconds."""
    return _scale(largest_ns, "ns")


def _scale(largest: float, unit: str) -> tuple[str, float]:
    scales = SCALES.get(unit.lower(), ((unit, 1.0),))
    return next((scale for scale in reversed(scales) if largest >= scale[1]), scales[0])


def percent(share: float | None, digits: int = 2) -> str:
    """A share as a percentage: 0.013 -> "1.3 %"."""
    return UNKNOWN if share is None else f"{significant(share * 100, digits)}{SPACE}%"


def change(ratio: float) -> str:
    """A ratio as a relative change with its sign: 0.63 -> "−37 %"."""
    relative = 100 * (ratio - 1)
    if abs(relative) < 0.05:
        return "unchanged"
    return f"{'+' if relative > 0 else ''}{fixed(relative, 1 if abs(relative) < 10 else 0)}{SPACE}%"


def level(value: float | None) -> str:
    """An interval's level, two digits of what is missing to one: 0.9936 -> "99.36 %"."""
    if value is None or not 0 < value < 1:
        return UNKNOWN
    places = max(0, -math.floor(math.log10(1 - value) + 1e-9) - 1)
    text = fixed(value * 100, places)
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}{SPACE}%"


def count(number: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 block", "2 blocks"."""
    return f"{number}{SPACE}{noun if number == 1 else plural or noun + 's'}"


# ------------------------------------------------------------------------------------------------ names and words


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters; what is cut from the middle is replaced by an ellipsis."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def capped(text: str, most: int) -> str:
    """A text cut so that two different ones stay different: the cut says how long it was, with a hash of the whole."""
    if len(text) <= most:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{text[: most - 40]}… ({len(text)} characters, {digest})"


def arm_name(arm: str) -> str:
    """An arm for a reader; the empty one is plain PyTorch."""
    return arm or "plain PyTorch"


def words(name: str) -> str:
    """A name with underscores as words: "step_time" -> "step time"."""
    return name.replace("_", " ").strip()


def verdict_text(verdict: Word) -> str:
    """A verdict's glyph and word, kept on one line."""
    return f"{GLYPHS[verdict]}{SPACE}{verdict}"


def outcome_text(outcome: str) -> str:
    """A trial's outcome in words."""
    return {"oom_device": "out of device memory", "oom_host": "out of host memory"}.get(outcome, words(outcome))


def doing(mode: str) -> str:
    """What is done in a mode: "training", "inference"."""
    return {"train": "training", "infer": "inference"}.get(mode, mode)


@dataclass(frozen=True)
class Look:
    """How a verdict is shown: never by colour alone."""

    glyph: str
    tone: str
    """The style class: better (blue), worse (orange), same, open, error (red), absent."""


GLYPHS: dict[Word, str] = {
    Word.FASTER: "▲",
    Word.SLOWER: "▼",
    Word.LOWER: "↓",
    Word.HIGHER: "↑",
    Word.EQUIVALENT: "≈",
    Word.INCONCLUSIVE: "?",
    Word.INVALID: "✕",
    Word.NOT_RUN: "○",
    Word.DESCRIPTIVE: "·",
}

TONES: dict[Word, str] = {
    Word.FASTER: "better",
    Word.SLOWER: "worse",
    Word.EQUIVALENT: "same",
    Word.INCONCLUSIVE: "open",
    Word.INVALID: "error",
    Word.NOT_RUN: "absent",
    Word.DESCRIPTIVE: "same",
}


def look(comparison: Comparison) -> Look:
    """A verdict's glyph and tone; lower and higher are good or bad by the direction of the speedup."""
    by_direction = "better" if (comparison.speedup or 0.0) > 1 else "worse"
    return Look(GLYPHS[comparison.verdict], TONES.get(comparison.verdict, by_direction))
