"""BERT-Large on text: three times BERT-Base's parameters, for what depends on a model that fills the memory."""

from __future__ import annotations

from harness.workloads.nets import bert

_REAL = {"layers": 24, "width": 1024, "heads": 16, "vocabulary": 30522, "dropout": 0.1}

WORKLOAD = bert.workload(
    "bert_large",
    "transformers' BERT-Large (24 layers, 1024 wide), masked-token training on documents of varying length",
    small={"batch": 1, "sequence_length": 32, **_REAL, "items": 256},
    full={"batch": 32, "sequence_length": 512, **_REAL, "items": 1024},
)
