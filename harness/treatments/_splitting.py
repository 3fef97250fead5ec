"""What the treatments share that work on a batch in parts."""

from __future__ import annotations

from typing import Any

from harness.spec import NotApplicable


def pieces(value: Any, parts: int) -> list[Any]:
    """A batch as equal parts along the first dimension of every tensor in it."""
    if hasattr(value, "split") and hasattr(value, "shape"):
        size = value.shape[0] if value.dim() else 0
        if size < parts:
            raise NotApplicable(f"a batch of {size} cannot be split into {parts} parts")
        if size % parts:
            raise NotApplicable(f"a batch of {size} cannot be split into {parts} equal parts")
        return list(value.split(size // parts))
    if isinstance(value, dict):
        split_items = {key: pieces(item, parts) for key, item in value.items()}
        return [{key: items[index] for key, items in split_items.items()} for index in range(parts)]
    if isinstance(value, tuple | list):
        return [type(value)(items) for items in zip(*(pieces(item, parts) for item in value), strict=True)]
    return [value] * parts
