"""JSON that anybody may have written, parsed or refused: `parsed`."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 50
"""So many lists and objects may stand inside each other; what mixdown writes stays far below."""


def parsed(text: str) -> Any:  # noqa: ANN401 - JSON is untyped
    """What a JSON text says.

    Raises:
        ValueError: it is not JSON, or nests so deeply that nobody who reads it need be prepared for it.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _is_deeper_than(data, DEEPEST):
        raise ValueError(_TOO_DEEP)
    return data


_TOO_DEEP = f"it nests more than {DEEPEST} levels deep"


def _is_deeper_than(data: object, levels: int) -> bool:
    """Level by level, not by recursion: it must not fall into the hole that it looks for."""
    level: list[Any] = [data]
    for _ in range(levels):
        level = [part for whole in level if isinstance(whole, dict | list) for part in _parts(whole)]
    return any(isinstance(part, dict | list) for part in level)


def _parts(whole: dict[str, Any] | list[Any]) -> Any:  # noqa: ANN401 - JSON is untyped
    return whole.values() if isinstance(whole, dict) else whole
