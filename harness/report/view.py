"""What templates print: tables, figures and sections as plain values with every text ready, so that they only loop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One table cell: a text, a smaller second line, a style class, and where it leads within the page."""

    text: str
    detail: str = ""
    style: str = ""
    anchor: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The text in pieces between which a line may break: inside names such as `a_b+c(d=e)`, not inside words."""
        return tuple(re.split(r"(?<=[A-Za-z0-9)][+(_=,])(?=\S)", self.text))


@dataclass(frozen=True)
class Column:
    """One table column: its heading, and whether it holds numbers (which are set right)."""

    title: str
    numeric: bool = False


@dataclass(frozen=True)
class Group:
    """Rows of a table under a heading of their own (which may be empty)."""

    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first cell of every row is its heading."""

    caption: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    style: str = ""


@dataclass(frozen=True)
class Picture:
    """One drawing as a data URI, with its size in CSS pixels."""

    source: str
    width: int
    height: int


@dataclass(frozen=True)
class FigureView:
    """A figure as it stands in the page: wide, narrow for phones (where it differs), words, and its numbers."""

    pictures: tuple[Picture, ...]
    """The last is shown by default; one before it on narrow screens only."""
    alternative: str
    caption: str
    numbers: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Panel:
    """A section of the report: where a link finds it, its heading, and the template that prints its content."""

    anchor: str
    title: str
    template: str
    content: Any


def table(caption: str, columns: str, rows: Sequence[Sequence[str | Cell]], style: str = "") -> Table:
    """A plain table from texts. Columns are separated by "|"; one that starts with "#" holds numbers."""
    heads = tuple(Column(title.strip("# "), title.strip().startswith("#")) for title in columns.split("|"))
    cells = tuple(tuple(each if isinstance(each, Cell) else Cell(each) for each in row) for row in rows)
    return Table(caption, heads, (Group(cells),), style or ("pairs" if len(heads) == 2 else ""))
