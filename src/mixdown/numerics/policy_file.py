"""A policy in a file: what `calibrate` and `bisect` found, to be used again."""

from __future__ import annotations

import json
from pathlib import Path

from mixdown.core import Policy
from mixdown.errors import PolicyError
from mixdown.untrusted.json_text import parsed


def save_policy(policy: Policy, path: str | Path) -> Path:
    """Write a policy as JSON; returns the path."""
    target = Path(path)
    target.write_text(json.dumps(policy.to_dict(), indent=2) + "\n", "utf-8")
    return target


def load_policy(path: str | Path) -> Policy:
    """The policy that `save_policy` wrote.

    Raises:
        PolicyError: the file holds something else.
        OSError: it cannot be read.
    """
    try:
        data = parsed(Path(path).read_text("utf-8"))
    except ValueError as broken:
        raise PolicyError(f"{path} holds no policy: it is not JSON ({broken}).") from None
    if not isinstance(data, dict):
        raise PolicyError(f"{path} holds no policy: a policy is a JSON object, not a {type(data).__name__}.")
    named = data.get("custom_kinds", [])
    if isinstance(named, list) and not all(isinstance(kind, str) for kind in named):
        raise PolicyError(f"{path} holds no policy: custom_kinds are names of op kinds, not {named!r}.")
    try:
        return Policy.from_dict(data)
    except (TypeError, OverflowError, RecursionError) as broken:  # lists where names belong, expressions too large
        raise PolicyError(f"{path} holds no policy: {broken}.") from None
