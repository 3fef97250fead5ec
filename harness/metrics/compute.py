"""Metrics of the work itself: its operations, what training made of the loss, skipped steps, equal bits."""

from __future__ import annotations

from harness.metrics.peaks import peak_flops
from harness.metrics.time import throughput
from harness.metrics.types import Metric, WindowTable, from_record
from harness.record import TrialRecord


def mfu(record: TrialRecord, kept: WindowTable) -> float | None:
    """Model FLOPs utilization: the untreated model's operations a second over what the devices can at most do.

    None where the device or the type is not in the table of peaks, and where the result would be above 1: then the
    count or the peak does not fit the device.
    """
    rate, peak = throughput(record, kept), peak_flops(record.device, record.product_dtype)
    if rate is None or peak is None or record.model_flops_per_item is None:
        return None
    share = record.model_flops_per_item * rate / (peak * record.rank_count)
    return share if share <= 1 else None


COMPUTE = (
    Metric(
        id="flops",
        unit="FLOP",
        better="lower",
        summary="floating-point operations an item by the arm's model, attention in its plain form",
        compute=from_record("flops_per_item"),
        exact=True,
        needs="a workload with a model",
    ),
    Metric(
        id="mfu",
        unit="1",
        better="higher",
        summary="the untreated model's operations a second over the dense peak of this device and type",
        compute=mfu,
        needs="a device in the table of peaks (harness/metrics/peaks.py)",
        cuda=True,
    ),
    Metric(
        id="bit_identical",
        unit="1",
        better="higher",
        summary="1 where the same batch and random numbers gave the same bits again",
        compute=from_record("bit_identical"),
        exact=True,
        needs="a workload with a model, and a step that can be repeated within seconds",
    ),
    Metric(
        id="loss_after",
        unit="1",
        better="none",
        summary="loss of the last step (arms may have run different numbers of steps: see numerics for a check)",
        compute=from_record("loss_after"),
        needs="training",
    ),
    Metric(
        id="skipped_steps",
        unit="steps",
        better="none",
        summary="optimizer steps skipped by a loss scaler during warm-up",
        compute=from_record("skipped_steps"),
    ),
)
