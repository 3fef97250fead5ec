"""docs/results.md is what the code says, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.identity import ID
from harness.store import Store
from harness.store.schema import TABLES, describe_columns, fill_page
from tests.store.making import make_trial


def test_the_tables_of_columns_are_those_of_the_code(checkout: Path) -> None:
    page = (checkout / "docs/results.md").read_text(encoding="utf-8")
    assert fill_page(page) == page, "run: python -m harness.store.schema docs/results.md"
    assert all(describe_columns(folder) in page for folder in TABLES)


def test_the_examples_run(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        Store(tmp_path / "results").write_trial(*make_trial(number))
    monkeypatch.chdir(tmp_path)
    page = (checkout / "docs/results.md").read_text(encoding="utf-8")
    scope: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(example, scope)
    assert len(scope["trials"]) == 3  # type: ignore[arg-type]
    assert len(scope["windows"]) == 3  # type: ignore[arg-type]
    assert scope["store"].problems == []  # type: ignore[attr-defined]


def test_every_column_has_a_description_with_its_unit_in_the_name() -> None:
    for schema, _ in TABLES.values():
        for column in schema:
            assert len(column.metadata[b"about"]) > 5
            if re.search(r"(time|duration|wait)$", column.name):
                pytest.fail(f"{column.name}: a time without a unit in its name")


def test_names_of_trials_are_of_the_documented_kind() -> None:
    assert ID.fullmatch(make_trial(5)[0].trial_id)
