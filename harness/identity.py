"""Identities: names made of what they name, so that equal work has an equal id on every machine and in every process.

An id is a letter and the SHA-256 of canonical JSON. The letter keeps any reader from taking an id for a number:
s spec, c cell, k code, e base environment, h hardware class, m machine, n environment with all its facts.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import hashlib
import importlib.util
import json
import math
import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.record import Fact
from harness.spec import Cell, Experiment, Source

# ------------------------------------------------------------------------------------------------ canonical JSON


def canonical_json(value: Any) -> str:
    """One text for one value: ASCII, keys sorted, no spaces; the same under every hash seed, locale and platform.

    Takes dataclasses, enums, mappings with text keys, sequences, sets and scalars. True, 1, 1.0 and "1" stay different.
    Raises TypeError for anything else and for numbers that are not finite.
    """
    return json.dumps(_plain(value), ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value} is no part of an identity; only finite numbers are")
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("the keys of a mapping in an identity must be text")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=canonical_json)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(item) for item in value]
    raise TypeError(f"a {type(value).__name__} is no part of an identity")


def digest(letter: str, value: Any) -> str:
    """The id of any canonical value."""
    return letter + hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


# ------------------------------------------------------------------------------------------------ what is asked


def spec_id(experiment: Experiment) -> str:
    """The id of an experiment as resolved.

    The budget is left out: it says how long to go on, and a run that is given more time goes on with the same work.
    """
    asked = dataclasses.replace(experiment, analysis=dataclasses.replace(experiment.analysis, budget=""))
    return digest("s", asked)


def cell_id(cell: Cell) -> str:
    """The id of a cell: two trials with the same one are replicates."""
    return digest("c", cell)


# ------------------------------------------------------------------------------------------------ code


USER_PACKAGE = "harness.plugins."


def code_parts(sources: Iterable[Source]) -> dict[str, str]:
    """SHA-256 of every file of ours that the child imports for these plug-ins, by module name.

    The engine's child, the plug-ins, and what they import of `harness` or of the files beside the user's own, found by
    reading the sources (also inside functions, where plug-ins import). Third-party code is told apart by its version,
    in the facts.
    """
    parts: dict[str, str] = {}
    waiting = [*_engine_files(), *((source.module, Path(source.path)) for source in sources)]
    while waiting:
        module, path = waiting.pop()
        if module not in parts:
            parts[module], imported = _read_source(path, module, _stamp(path))
            waiting += [(name, found) for name in imported if (found := _file_of(name))]
    return dict(sorted(parts.items()))


def code_id(parts: Mapping[str, str]) -> str:
    """The id of `code_parts`."""
    return digest("k", parts)


def code_facts(parts: Mapping[str, str]) -> list[Fact]:
    """The parts as facts, so that a later run can name the file that changed."""
    return [Fact(path=f"code.{module}", value=sha256, source="file") for module, sha256 in sorted(parts.items())]


def _engine_files() -> list[tuple[str, Path]]:
    root = Path(__file__).parent
    files = [root / "spec.py", root / "record.py", root / "steady.py", *(root / "child").rglob("*.py")]
    return [(_module_of(path), path) for path in files if path.exists()]


def _module_of(path: Path) -> str:
    parts = path.relative_to(Path(__file__).parent.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _file_of(module: str) -> Path | None:
    """The file of a module of ours; `harness.workloads` may lie beside the package, so its own path is asked."""
    parent, _, name = module.rpartition(".")
    folders = [Path(__file__).parent.parent.joinpath(*parent.split(".")) if parent else Path(__file__).parent.parent]
    if parent in sys.modules:
        folders += map(Path, getattr(sys.modules[parent], "__path__", ()))
    elif module.startswith(USER_PACKAGE):
        below = parent.removeprefix(USER_PACKAGE).split(".")
        folders += (Path(folder, *below) for folder in sys.modules[USER_PACKAGE[:-1]].__path__)
    candidates = [path for folder in folders for path in (folder / f"{name}.py", folder / name / "__init__.py")]
    return next((path for path in candidates if path.is_file()), None)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=1024)
def _read_source(path: Path, module: str, stamp: tuple[int, int]) -> tuple[str, tuple[str, ...]]:
    """SHA-256 of a file and the modules of ours it imports; `stamp` makes an edited file another cache entry."""
    content = path.read_bytes()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    ours = {name for name in names if name.partition(".")[0] == "harness"}
    if module.startswith(USER_PACKAGE):  # what a training script imports may lie beside it
        ours |= {f"{USER_PACKAGE}{name}" for name in names - ours}
    return hashlib.sha256(content).hexdigest(), tuple(sorted(ours))


# ------------------------------------------------------------------------------------------------ facts


def facts_id(letter: str, facts: Iterable[Fact], machine_id: str) -> str:
    """The id of the identity facts of an environment ("e") or of a hardware class ("h").

    What could not be read is equal to nothing, not even to itself read again: it enters as a value never used before,
    so nothing is ever counted as measured under equal conditions because nobody could look. What a device does not
    support is a definite answer of that one machine, and enters with the machine's id.
    """
    return digest(letter, {fact.path: _identity_value(fact, machine_id) for fact in facts})


def _identity_value(fact: Fact, machine_id: str) -> list[str]:
    if fact.state == "ok" and fact.value is not None:
        return ["ok", fact.value, fact.unit]
    if fact.state == "absent":
        return ["absent"]
    if fact.state == "unsupported":
        return ["unsupported", machine_id]
    return ["unknown", new_id()]


def environment_id(facts: Iterable[Fact]) -> str:
    """The name of an environment's file: a hash of everything in it. It names the file and proves no equality."""
    return digest("n", sorted(canonical_json(fact) for fact in facts))


@dataclass(frozen=True, kw_only=True)
class FactChange:
    """One line of the difference between two environments."""

    path: str
    before: str
    """With unit, or the state in words; "not recorded" where that side has no such fact."""
    after: str
    kind: Literal["identity", "hardware", "context"]

    def __str__(self) -> str:
        return f"{self.path.removeprefix('package.')} {self.before} -> {self.after}"


def compare_facts(before: Iterable[Fact], after: Iterable[Fact]) -> list[FactChange]:
    """What differs between two environments; facts that could not be read differ from everything.

    Identity and hardware come first, since they decide what may be paired.
    """
    old, new = ({fact.path: fact for fact in facts} for facts in (before, after))
    changes = [
        FactChange(path=path, before=_in_words(a), after=_in_words(b), kind=(b or a).kind)  # type: ignore[union-attr]
        for path in old.keys() | new.keys()
        for a, b in [(old.get(path), new.get(path))]
        if not same_fact(a, b)
    ]
    order = ("identity", "hardware", "context")
    return sorted(changes, key=lambda change: (order.index(change.kind), change.path))


def same_fact(one: Fact | None, other: Fact | None) -> bool:
    """Whether two facts are known to be equal; unknown never equals unknown."""
    if one is None or other is None or one.state != other.state:
        return False
    if one.state == "ok":
        return one.value is not None and (one.value, one.unit) == (other.value, other.unit)
    return one.state in ("absent", "unsupported")


def _in_words(fact: Fact | None) -> str:
    if fact is None:
        return "not recorded"
    if fact.state != "ok":
        return {"unsupported": "not supported", "absent": "absent"}.get(fact.state, f"unknown ({fact.state})")
    if fact.value is None:
        return "unknown"
    return f"{fact.value} {fact.unit}".strip()


# ------------------------------------------------------------------------------------------------ names of trials

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUIDv7 as text, the name of a trial or a session."""


class _Clock:
    """Milliseconds and a 12-bit counter that never go back, not even when the system's clock is set back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def tick(self) -> int:
        with self._lock:
            self._last = max(time.time_ns() // 1_000_000 << 12, self._last + 1)
            return self._last


_clock = _Clock()


def new_id() -> str:
    """A UUIDv7: unique over machines without a server (62 random bits), and in order of time within one process."""
    ticks = _clock.tick()
    random = int.from_bytes(os.urandom(8), "big") & (1 << 62) - 1
    return str(uuid.UUID(int=(ticks >> 12 << 80) | (7 << 76) | ((ticks & 0xFFF) << 64) | (0b10 << 62) | random))
