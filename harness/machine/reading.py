"""How a fact is read: a value, or the state that says why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from harness import nvml
from harness.record import Fact

Kind = Literal["identity", "hardware", "context"]


def file_fact(path: str, file: Path, *, unit: str = "", kind: Kind = "context", source: str = "") -> Fact:
    """A fact that is the whole content of a file of /proc or /sys."""
    text, state = read_text(file)
    return Fact(path=path, value=text, unit=unit, source=source or str(file), state=state, kind=kind)


def read_text(file: Path) -> tuple[str | None, nvml.State]:
    """The stripped content of a small file, or why it cannot be had."""
    try:
        return file.read_text(errors="replace").strip(), "ok"
    except (FileNotFoundError, NotADirectoryError):
        return None, "absent"
    except PermissionError:
        return None, "denied"
    except OSError as error:
        return None, "unsupported" if error.errno in (95, 22, 61) else "error"


def known_fact(path: str, value: object, source: str, *, unit: str = "") -> Fact:
    """A context fact that is there or (None) definitely not there."""
    state: nvml.State = "absent" if value is None else "ok"
    return Fact(path=path, value=None if value is None else str(value), unit=unit, source=source, state=state)


def value_fact(path: str, value: object, source: str, *, unit: str = "", kind: Kind = "context") -> Fact:
    """A fact that is known, or (None) could not be found out."""
    if value is None:
        return Fact(path=path, value=None, unit=unit, source=source, state="error", kind=kind)
    return Fact(path=path, value=str(value), unit=unit, source=source, kind=kind)
