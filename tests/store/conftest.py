"""These tests kill processes and never cut the power, so what the kernel holds is enough: none waits for a disk."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is synced, and when, is tested in test_crash.py."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
