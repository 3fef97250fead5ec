"""What image classifiers share, whatever the network: the loss and the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def loss(model: Any, batch: Any) -> torch.Tensor:
    """Cross entropy of the classes."""
    from torch.nn.functional import cross_entropy

    pictures, labels = batch
    return cross_entropy(model(pictures), labels)


def predict(model: Any, batch: Any) -> torch.Tensor:
    """Logits [batch, classes]."""
    logits: torch.Tensor = model(batch[0])
    return logits
