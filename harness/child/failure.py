"""Which outcome an exception is: every way to fail becomes a typed record."""

from __future__ import annotations

from harness.record import ChildRecord, Outcome
from harness.spec import NoEffect, NotApplicable, UsageError

DEVICE_MEMORY_SIGNS = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""Of device memory that libraries ask for themselves, past torch's allocator and its OutOfMemoryError."""


def failure(error: BaseException) -> ChildRecord:
    """The typed record of an exception."""
    words = f"{type(error).__name__}: {error}"
    match error:
        case NoEffect():
            return ChildRecord(outcome=Outcome.NOT_APPLIED, reason=str(error))
        case NotApplicable():
            return ChildRecord(outcome=Outcome.NOT_APPLICABLE, reason=str(error))
        case MemoryError():
            return ChildRecord(outcome=Outcome.OOM_HOST, reason=words)
        case UsageError():
            return ChildRecord(outcome=Outcome.CRASHED, reason=str(error))
    if type(error).__name__ == "OutOfMemoryError" or any(sign in words for sign in DEVICE_MEMORY_SIGNS):
        return ChildRecord(outcome=Outcome.OOM_DEVICE, reason=words)
    if "can't allocate memory" in words or "Cannot allocate memory" in words:
        return ChildRecord(outcome=Outcome.OOM_HOST, reason=words)
    if "Connection closed by peer" in words or "Connection reset by peer" in words:
        return ChildRecord(outcome=Outcome.CRASHED, reason=f"another rank had died: {words}")
    if "fail_on_recompile" in words:
        return ChildRecord(
            outcome=Outcome.NOT_STEADY, reason=f"a compiled graph was compiled again after warm-up: {words}"
        )
    return ChildRecord(outcome=Outcome.CRASHED, reason=words)
