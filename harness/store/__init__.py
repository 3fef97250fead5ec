"""Durable results: Parquet and TOML files that any number of machines write into one folder, and how to read them.

`Store` writes and reads; `compact`, `verify` and `quarantine` look after a folder; `TRIALS`, `STEPS`, `TELEMETRY` and
`ENVIRONMENTS` are the schemas for readers of the Parquet itself (docs/results.md).
"""

from harness.store.compact import compact
from harness.store.finding import Finding
from harness.store.schema import ENVIRONMENTS, SCHEMA_VERSION, STEPS, TELEMETRY, TRIALS
from harness.store.store import Store
from harness.store.verify import quarantine, verify

__all__ = [
    "ENVIRONMENTS",
    "SCHEMA_VERSION",
    "STEPS",
    "TELEMETRY",
    "TRIALS",
    "Finding",
    "Store",
    "compact",
    "quarantine",
    "verify",
]
