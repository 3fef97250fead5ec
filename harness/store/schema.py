"""The Parquet schemas, derived from the classes in `record`: a column is declared there and nowhere else."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from harness.record import Fact, Sample, TrialRecord, Window

# History of the schema. Within a major version only columns are added, and every reader fills what an older file lacks
# with the column's default; anything else is a new major version, which older readers refuse in words.
# A store of every released version lies under tests/store/fixtures and is read by the tests for ever.
#
# 1.0  trials, steps, telemetry, environments.
# 1.1  trials: declared_changes_json, declared_numerics, numerics_json; what is measured beside the windows, from
#      steps_per_epoch to not_measured_json. telemetry: sm_activity, tensor_activity, dram_activity.
SCHEMA_VERSION = "1.1"

Row = TypeVar("Row", TrialRecord, Window, Sample, Fact)

ARROW_TYPES: Mapping[type, pa.DataType] = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


COLUMN_TYPES: Mapping[type, Mapping[str, Any]] = {
    row_type: typing.get_type_hints(row_type) for row_type in (TrialRecord, Window, Sample, Fact)
}
"""The annotated type of every column, by record class."""


def schema_of(row_type: type) -> pa.Schema:
    """The Arrow schema of a record class: int64, float64, bool and string columns; descriptions as field metadata.

    Every column may be null for Arrow, since a file written before a column existed has none; `is_optional` says which
    ones are null where the value is unknown.
    """
    hints = COLUMN_TYPES[row_type]
    fields = []
    for each in dataclasses.fields(row_type):
        fields.append(pa.field(each.name, _arrow_type(hints[each.name]), metadata={"about": each.metadata["about"]}))
    return pa.schema(fields)


def is_optional(hint: Any) -> bool:
    """Whether a column's type says that it is null where the value is unknown."""
    return isinstance(hint, types.UnionType) and types.NoneType in typing.get_args(hint)


def _arrow_type(hint: Any) -> pa.DataType:
    if is_optional(hint):
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    if typing.get_origin(hint) is typing.Literal or (isinstance(hint, type) and issubclass(hint, enum.StrEnum)):
        hint = str
    return ARROW_TYPES[hint]


TRIALS = schema_of(TrialRecord)
STEPS = schema_of(Window)
TELEMETRY = schema_of(Sample)
ENVIRONMENTS = schema_of(Fact)

TABLES: Mapping[str, tuple[pa.Schema, type]] = {
    "trials": (TRIALS, TrialRecord),
    "steps": (STEPS, Window),
    "telemetry": (TELEMETRY, Sample),
    "environments": (ENVIRONMENTS, Fact),
}
"""By folder."""


# ------------------------------------------------------------------------------------------------ rows and tables


def to_table(folder: str, rows: Sequence[Any]) -> pa.Table:
    """Rows of a record class as a table. Numbers that are not finite become null; text is made valid UTF-8."""
    schema, _ = TABLES[folder]
    columns = [[_clean(getattr(row, name)) for row in rows] for name in schema.names]
    return pa.Table.from_arrays(
        [pa.array(values, type=each.type) for values, each in zip(columns, schema, strict=True)],
        schema=schema.remove_metadata(),
    )


def to_rows(table: pa.Table, row_type: type[Row]) -> list[Row]:
    """The rows of a table as records; columns that an older file lacks get their default, unknown ones are left out."""
    hints = COLUMN_TYPES[row_type]
    there = table.to_pydict()
    names = [name for name in hints if name in there]
    columns = []
    for name in names:
        values = there[name]
        hint = hints[name]
        if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
            values = [hint(value) for value in values]
        columns.append(values)
    return [row_type(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def _clean(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


# ------------------------------------------------------------------------------------------------ documentation


def fill_page(page: str) -> str:
    """The text of docs/results.md with its tables made anew: `python -m harness.store.schema docs/results.md`."""
    for folder in TABLES:
        start = f"<!-- columns of {folder}: generated, do not edit -->\n"
        before, _, rest = page.partition(start)
        _, end, after = rest.partition("<!-- end -->")
        page = f"{before}{start}{describe_columns(folder)}\n{end}{after}"
    return page


def describe_columns(folder: str) -> str:
    """The columns of one kind of file as a Markdown table."""
    schema, row_type = TABLES[folder]
    hints = COLUMN_TYPES[row_type]
    lines = ["| column | type | null | what it is |", "| --- | --- | --- | --- |"]
    for each in schema:
        about = each.metadata[b"about"].decode().replace("|", "\\|")
        null = "unknown" if is_optional(hints[each.name]) else "never"
        lines.append(f"| {each.name} | {each.type} | {null} | {about} |")
    return "\n".join(lines)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(fill_page(Path(name).read_text(encoding="utf-8")), encoding="utf-8")
