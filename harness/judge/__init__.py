"""Verdicts from records: pure functions of what was stored, the same whenever they are asked."""

from harness.judge.judge import judge
from harness.metrics import WindowTable

__all__ = ["WindowTable", "judge"]
