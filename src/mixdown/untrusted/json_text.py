"""Parses JSON from a file that anybody may have written, and refuses what is nested too deeply: `parsed`."""

import json
from typing import Any

DEEPEST = 50
"""How many lists and objects may be nested; what mixdown writes stays far below."""


def parsed(text: str) -> Any:  # noqa: ANN401 - JSON is untyped
    """What a JSON text holds; a ValueError if it is none, or if code that recurses into it could run out of stack."""
    too_deep = ValueError(f"it nests more than {DEEPEST} levels deep")
    try:
        data = json.loads(text)
    except RecursionError:
        raise too_deep from None
    level: list[Any] = [data] if isinstance(data, dict | list) else []
    for _ in range(DEEPEST):  # level by level: a recursive function could run out of stack itself
        nested = [whole.values() if isinstance(whole, dict) else whole for whole in level]
        level = [part for parts in nested for part in parts if isinstance(part, dict | list)]
    if level:
        raise too_deep
    return data
