"""BERT-Base on text: masked tokens in documents of varying length, with padding."""

from __future__ import annotations

from harness.workloads.nets import bert

_REAL = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 30522, "dropout": 0.1}

WORKLOAD = bert.workload(
    "bert_base",
    "transformers' BERT-Base, masked-token training on documents of varying length",
    small={"batch": 2, "sequence_length": 32, **_REAL, "items": 512},
    full={"batch": 64, "sequence_length": 512, **_REAL, "items": 2048},
    standard=True,
)
