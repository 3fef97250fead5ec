"""What several tests need: where the checkout is, and a results folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the repository."""
    return CHECKOUT


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty results folder, which commands also take as their default."""
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setenv("RESULTS", str(folder))
    monkeypatch.setenv("REPORTS", str(tmp_path / "reports"))
    return folder


@pytest.fixture(autouse=True)
def no_variables_of_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test PRESET=full` must not change what the tests run."""
    for name in ("WORKLOAD", "TREATMENTS", "PRESET", "MODE", "BUDGET", "DATA", "DEVICE", "INPUT", "SEED"):
        monkeypatch.delenv(name, raising=False)
