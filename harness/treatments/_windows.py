"""What the treatments share that have each token look at its neighbours only, and at a few tokens all look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.spec import NotApplicable


def keeper(window: int, global_tokens: int) -> Callable[[Any, Any], Any]:
    """(query's position, key's position) -> whether they see each other; for numbers and tensors alike."""

    def keep(query: Any, key: Any) -> Any:
        near = (query - key <= window) & (key - query <= window)
        return near | (query < global_tokens) | (key < global_tokens)

    return keep


def replace_attention(model: Any, bench: Any, attend: Callable[[Any, Any, Any], Any]) -> Any:
    """Have every module of the model whose attention is a function use this one."""
    found = [module for module in model.modules() if hasattr(module, "attend")]
    if not found:
        raise NotApplicable(f"no module of the workload {bench.workload.name} has an attention that can be replaced")
    for module in found:
        module.attend = attend
    return model
