"""Parses JSON from a file that anybody may have written, and refuses what is nested too deeply: `parsed`."""

import json
from typing import Any

DEEPEST = 50
"""How many lists and objects may be nested; what mixdown writes stays far below."""

_TOO_DEEP = f"it nests more than {DEEPEST} levels deep"


def parsed(text: str) -> Any:  # noqa: ANN401 - JSON is untyped
    """The lists, objects and values that a JSON text holds.

    Raises:
        ValueError: it is not JSON, or is nested so deeply that code which recurses into it could run out of stack.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _is_deeper_than(data, DEEPEST):
        raise ValueError(_TOO_DEEP)
    return data


def _is_deeper_than(data: object, levels: int) -> bool:
    """Goes level by level: a recursive function could run out of stack itself."""
    level: list[Any] = [data] if isinstance(data, dict | list) else []
    for _ in range(levels):
        nested = [whole.values() if isinstance(whole, dict) else whole for whole in level]
        level = [part for parts in nested for part in parts if isinstance(part, dict | list)]
    return bool(level)
