"""Mixed precision for a part of a program: the `with` block `rewriting`, and the decorator `rewrite`."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mixdown.core import Policy
from mixdown.messages import warn
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.install import install
from mixdown.tensorflow.machine.gates import closed_gate, gate_warning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def rewriting(policy: Policy | None = None) -> Iterator[None]:
    """Run what this thread calls inside the `with` block in mixed precision, and nothing else.

    Args:
        policy: what may be low, and where; the default policy if None.
    """
    policy = policy or Policy()
    install()
    gate = closed_gate(policy)
    if gate:
        warn(gate_warning(policy, gate))
    with active_policy.scope(None if gate else policy):
        yield


def rewrite(policy: Policy | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate one function, by preference a tf.function: its calls run in mixed precision, others do not.

    Args:
        policy: what may be low, and where; the default policy if None.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if tf.inside_function():
                warn(
                    f"{getattr(function, '__name__', function)} is decorated with mixdown.rewrite, but called inside "
                    f"another tf.function: decorate the outermost one."
                )
            with rewriting(policy):
                return function(*args, **kwargs)

        return call

    return decorate
