"""Reads experiment files: TOML into `spec.Experiment`, with errors that name file, key, value and what is allowed."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from harness.arms import nearest
from harness.spec import Analysis, Claim, Experiment, Measure, UsageError

_CHECKOUT = Path(__file__).parents[1]


def experiment_folder() -> Path:
    """Where the shipped experiment files lie: in the checkout, or inside the package of an installed wheel."""
    checkout = _CHECKOUT / "experiments"
    return checkout if (_CHECKOUT / "pyproject.toml").is_file() else Path(__file__).parent / "experiments"


def experiment_files() -> dict[str, Path]:
    """The shipped experiments by stem; the claims ledger is none."""
    return {path.stem: path for path in sorted(experiment_folder().glob("**/*.toml")) if path.stem != "claims"}


def load_experiment(path: Path) -> Experiment:
    """Read and validate one experiment file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"experiment file {path} cannot be read: {error}") from error
    return parse_experiment(text, str(path), default_name=re.sub(r"[^\w.+-]", "_", path.stem)[:100])


def parse_experiment(text: str, where: str, default_name: str = "") -> Experiment:
    """Validate the text of an experiment file; `where` names it in errors."""
    try:
        values = msgspec.toml.decode(text)
        _refuse_unknown_keys(values, where)
        experiment = msgspec.convert(values, Experiment)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {_in_words(str(error))}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{where} is not valid TOML: {error}") from error
    if not re.fullmatch(r"[\w.+-]{0,100}", experiment.name):
        raise UsageError(
            f"{where}: key 'name': '{experiment.name}' is no name; use letters, digits and _ . + -, 100 at most"
        )
    check_ranges(experiment, where)
    return experiment if experiment.name else dataclasses.replace(experiment, name=default_name)


@dataclass(frozen=True)
class Range:
    """What a setting may be."""

    low: float
    high: float = math.inf
    open: bool = False
    """Whether the ends themselves are excluded."""
    or_zero: bool = False
    """0 stands for a default."""

    def holds(self, value: float) -> bool:
        """Whether a value is allowed; one that is no number never is."""
        inside = self.low < value < self.high if self.open else self.low <= value <= self.high
        return inside or (self.or_zero and value == 0)

    def __str__(self) -> str:
        least, most = ("above", "below") if self.open else ("at least", "at most")
        upper = "" if math.isinf(self.high) else f" and {most} {self.high:g}"
        return f"{least} {self.low:g}{upper}{', or 0 for the default' if self.or_zero else ''}"


RANGES = {
    "seed": Range(0, 2**32 - 1),
    "replicates": Range(2, 100, or_zero=True),
    "analysis.rope": Range(0, 0.5),
    "analysis.alpha": Range(0, 0.5, open=True),
    "analysis.min_blocks": Range(1, 100_000),
    "analysis.max_blocks": Range(1, 100_000),
    "analysis.precision": Range(1e-4, 0.5, or_zero=True),
    "analysis.max_steal_share": Range(0, 1),
    "analysis.max_foreign_cpu_share": Range(0),
    "measure.windows": Range(5, 100_000, or_zero=True),
    "measure.window_ms": Range(0, 600_000, open=True),
    "measure.warmup_steps": Range(1, 1_000_000, or_zero=True),
    "measure.timed_seconds": Range(0, 86_400),
    "measure.extensions": Range(0, 100),
}
"""Of the settings that are numbers; what an experiment file and a command line may say is checked here alike."""


def check_ranges(experiment: Experiment, where: str = "") -> None:
    """Refuse settings that no run could honour, before anything is written."""
    prefix = f"{where}: " if where else ""
    for path, allowed in RANGES.items():
        table, _, name = path.rpartition(".")
        value = getattr(getattr(experiment, table) if table else experiment, name)
        if not allowed.holds(value):
            raise UsageError(f"{prefix}{path} {value:g} is out of range; it is {allowed}")
    analysis = experiment.analysis
    if analysis.budget:
        try:
            parse_duration(analysis.budget, above_zero=True)
        except UsageError as error:
            raise UsageError(f"{prefix}budget {error}") from None
    if analysis.open_ended and analysis.rope == 0 and not analysis.budget:
        raise UsageError(f"{prefix}an open-ended run with rope 0 may never end; give it a budget or a rope")


_TABLES: dict[str, type] = {"measure": Measure, "analysis": Analysis}


def _refuse_unknown_keys(values: dict[str, object], where: str) -> None:
    """A misspelt key would silently be a default: name it, with the nearest right one."""
    tables: list[tuple[str, Any, object]] = [("", Experiment, values)]
    tables += [(f"[{name}] ", kind, values[name]) for name, kind in _TABLES.items() if name in values]
    for prefix, kind, table in tables:
        known = [field.name for field in dataclasses.fields(kind)]
        for key in table if isinstance(table, dict) else ():
            if key not in known:
                raise UsageError(
                    f"{where}: {prefix}has no key '{key}'{nearest(key, known)} it takes: {', '.join(known)}"
                )


def _in_words(message: str) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.seed`", with the path as a reader of TOML writes it."""
    match = re.fullmatch(r"(?P<what>.*) - at `\$\.?(?P<path>.*)`", message)
    return f"key '{match['path']}': {match['what']}" if match else message


def parse_duration(text: str, above_zero: bool = False) -> float:
    """Seconds of "90s", "10m", "2h" or a bare number of seconds; where asked for, 0 is refused as well."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|)\s*", text)
    if not match:
        raise UsageError(f"'{text}' is no duration; write for instance 90s, 10m or 2h")
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}[match[2]]
    if above_zero and seconds <= 0:
        raise UsageError(f"'{text}' is no time to do anything in; write for instance 90s, 10m or 2h")
    return seconds


def parse_share(text: str, what: str) -> float:
    """0.01 of "1%", "1 %" or "0.01"."""
    bare = text.strip().removesuffix("%")
    try:
        return float(bare) / (100 if bare != text.strip() else 1)
    except ValueError:
        raise UsageError(f"{what} '{text}' is no number; write for instance 1% or 0.01") from None


def experiment_toml(experiment: Experiment) -> str:
    """The text of an experiment, for results/specs; `parse_experiment` gives the same experiment back."""
    import tomli_w

    return tomli_w.dumps(msgspec.to_builtins(experiment))


@dataclass(frozen=True)
class Ledger:
    """The claims, and what stands for "any" workload in them."""

    claims: tuple[Claim, ...] = ()
    any: tuple[str, ...] = ()
    """Tried in this order: the first that a claim's treatments apply to is taken."""


class _LedgerFile(TypedDict, total=False):
    """The ledger as it is written."""

    claim: tuple[Claim, ...]
    any: tuple[str, ...]


def load_ledger(path: Path | None = None) -> Ledger:
    """The claims ledger, validated; empty where there is none."""
    shipped = experiment_folder() / "claims.toml"
    if path is None and not shipped.is_file():
        return Ledger()
    path = path or shipped
    try:
        values = msgspec.toml.decode(path.read_bytes())
        ledger = msgspec.convert(values, _LedgerFile)
    except OSError as error:
        raise UsageError(f"claims ledger {path} cannot be read: {error.strerror}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_in_words(str(error))}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    known = [field.name for field in dataclasses.fields(Claim)]
    for entry in values.get("claim", ()):
        for key in entry:
            if key not in known:
                raise UsageError(f"{path}: claim '{entry['id']}' has no key '{key}'{nearest(key, known)} see its head")
    return Ledger(ledger.get("claim", ()), ledger.get("any", ()))
