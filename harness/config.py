"""Reads experiment files: TOML into `spec.Experiment`, with errors that name file, key, value and what is allowed."""

from __future__ import annotations

import dataclasses
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
    return experiment if experiment.name else dataclasses.replace(experiment, name=default_name)


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


def parse_duration(text: str) -> float:
    """Seconds of "90s", "10m", "2h" or a bare number of seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|)\s*", text)
    if not match:
        raise UsageError(f"'{text}' is no duration; write for instance 90s, 10m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}[match[2]]


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
