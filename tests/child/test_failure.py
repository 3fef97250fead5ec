"""Which outcome an exception is."""

from __future__ import annotations

import pytest

from harness.child.failure import failure
from harness.record import Outcome
from harness.spec import NoEffect, NotApplicable


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (NoEffect("nothing seen"), Outcome.NOT_APPLIED, "nothing seen"),
        (NotApplicable("no convolution"), Outcome.NOT_APPLICABLE, "no convolution"),
        (MemoryError(), Outcome.OOM_HOST, "MemoryError: "),
        (OSError(12, "Cannot allocate memory"), Outcome.OOM_HOST, "OSError: [Errno 12] Cannot allocate memory"),
        (RuntimeError("CUDA error: out of memory"), Outcome.OOM_DEVICE, "RuntimeError: CUDA error: out of memory"),
        (RuntimeError("Connection closed by peer"), Outcome.CRASHED, "another rank had died: RuntimeError: Conn"),
        (RuntimeError("set_stance fail_on_recompile"), Outcome.NOT_STEADY, "a compiled graph was compiled again"),
        (ValueError("else"), Outcome.CRASHED, "ValueError: else"),
    ],
)
def test_every_failure_has_its_outcome(error: Exception, outcome: Outcome, reason: str) -> None:
    record = failure(error)
    assert record.outcome is outcome
    assert record.reason.startswith(reason)
    assert record.windows == ()
