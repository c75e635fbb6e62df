"""Which policy is in force: for the whole process, or inside a `with` block of one thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mixdown.tensorflow.twins import Twins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixdown.core import Policy


class _Scopes(threading.local):
    """The policies of the `with` blocks that a thread is in, innermost last."""

    def __init__(self) -> None:
        self.stack: list[Twins | None] = []


_scopes = _Scopes()
_process: Twins | None = None
_made: dict[Policy, Twins] = {}
_lock = threading.Lock()


def current() -> Twins | None:
    """The twins to use for a call made now in this thread, None if calls are left alone."""
    stack = _scopes.stack
    return stack[-1] if stack else _process


def current_policy() -> Policy | None:
    """The policy in force for this thread now."""
    twins = current()
    return None if twins is None else twins.policy


def all_twins() -> list[Twins]:
    """The twins made for every policy that was ever in force."""
    return list(_made.values())


def set_process_policy(policy: Policy | None) -> None:
    """Put a policy in force for all threads, or none."""
    global _process  # noqa: PLW0603 - the switch of a process-wide feature is process-wide
    _process = None if policy is None else twins_for(policy)


@contextmanager
def scope(policy: Policy | None) -> Iterator[None]:
    """Put a policy in force for this thread inside a `with` block, or none."""
    _scopes.stack.append(None if policy is None else twins_for(policy))
    try:
        yield
    finally:
        _scopes.stack.pop()


def twins_for(policy: Policy) -> Twins:
    """The twins of a policy: equal policies share them."""
    with _lock:
        return _made.setdefault(policy, Twins(policy))
