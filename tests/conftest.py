"""What several tests need: where the checkout is, and a results folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are made says something about the machine's load, and nothing about the property.
settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")

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


OPTIONS = (
    "WORKLOAD", "TREATMENTS", "BASELINE", "PRESET", "MODE", "PROTOCOL", "BUDGET", "DATA", "DEVICE", "INPUT", "SEED",
    "MAX_BLOCKS", "ROPE", "MAX_FOREIGN_LOAD", "MAX_STEAL", "HARNESS_PLUGINS",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_options_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test PRESET=full` must not change what the tests run."""
    for name in OPTIONS:
        monkeypatch.delenv(name, raising=False)
