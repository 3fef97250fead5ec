"""Tables of windows and samples as NumPy arrays, a dict of columns for each trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.store.schema import COLUMN_TYPES, TABLES, is_optional

Columns = dict[str, npt.NDArray[np.generic]]
"""The rows of one trial by column: int64 where the value is always known, float64 with NaN where it may be unknown."""


def split_by_trial(folder: str, table: pa.Table) -> Iterator[tuple[str, Columns]]:
    """The columns of each trial in a table in which the rows of a trial lie together."""
    if table.num_rows == 0:
        return
    columns = _to_columns(folder, table)
    ids = np.asarray(table.column("trial_id").to_pylist(), dtype=object)
    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
        yield ids[start], {name: values[start:end] for name, values in columns.items()}


def _to_columns(folder: str, table: pa.Table) -> Columns:
    schema, row_type = TABLES[folder]
    hints = COLUMN_TYPES[row_type]
    defaults = {each.name: each.default for each in dataclasses.fields(row_type)}
    columns: Columns = {}
    for name in schema.names:
        if name == "trial_id":
            continue
        may_be_unknown = is_optional(hints[name])
        if name in table.column_names:
            column = table.column(name)
            columns[name] = (column.cast(pa.float64()) if may_be_unknown else column).to_numpy()
        else:
            columns[name] = np.full(table.num_rows, np.nan if may_be_unknown else defaults[name])
    return columns
