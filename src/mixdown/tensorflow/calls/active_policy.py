"""Which policy is in force: for the whole process, or inside a `with` block of one thread."""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mixdown.core import Policy
from mixdown.messages import warn
from mixdown.tensorflow.calls.tuned_twins import TunedTwins
from mixdown.tensorflow.calls.twins import Twins
from mixdown.tensorflow.machine.gates import closed_gate, gate_warning


class _Scopes(threading.local):
    """The policies of the `with` blocks that a thread is in, innermost last."""

    def __init__(self) -> None:
        self.stack: list[Twins | None] = []


_scopes = _Scopes()
_process: Twins | None = None
_made: dict[Policy, Twins] = {}
_lock = threading.Lock()


def current() -> Twins | None:
    """The twins to use for a call made now in this thread, None if no policy is in force."""
    stack = _scopes.stack
    return stack[-1] if stack else _process


def current_policy() -> Policy | None:
    """The policy in force for this thread now."""
    twins = current()
    return None if twins is None else twins.policy


def has_effect(policy: Policy) -> bool:
    """Whether a device of this machine takes part under a policy; warns if none does."""
    if gate := closed_gate(policy):
        warn(gate_warning(policy, gate))
    return not gate


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
    twins, stack = None if policy is None else twins_for(policy), _scopes.stack
    depth = len(stack)
    try:
        stack.append(twins)
        yield
    finally:
        del stack[depth:]


def twins_for(policy: Policy) -> Twins:
    """The twins of a policy: equal policies share them."""
    with _lock:
        return _made.setdefault(policy, TunedTwins(policy) if policy.strategy == "tuned" else Twins(policy))


@atexit.register
def _tell_idle_rules() -> None:
    """Warn of rules that matched nothing in a training step that was made once only."""
    for twins in all_twins():
        twins.tell_idle_rules()


def _unlock() -> None:
    """Replace all locks, in a forked process: the threads that hold them do not exist there."""
    global _lock  # noqa: PLW0603 - a lock can be released only by the thread that holds it
    _lock = threading.Lock()
    for twins in all_twins():
        twins.unlock()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_unlock)
