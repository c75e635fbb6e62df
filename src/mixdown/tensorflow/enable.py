"""Mixed precision for a whole program (`enable_mixed_precision_graph_rewrite`), or for a block or function of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

import tensorflow as tf

from mixdown.core import Policy
from mixdown.core.policy import policy_or
from mixdown.messages import warn
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.install import install
from mixdown.tensorflow.loss_scaling.loss_scale import LossScale
from mixdown.tensorflow.loss_scaling.misuse import watch
from mixdown.tensorflow.loss_scaling.optimizers import LossScaleOptimizer
from mixdown.tensorflow.loss_scaling.optimizers.v1 import MixedPrecisionLossScaleOptimizer
from mixdown.tensorflow.machine.gates import mixed_keras_policy
from mixdown.tensorflow.sessions import hook

Function = TypeVar("Function", bound=Callable[..., Any])


def enable_mixed_precision_graph_rewrite(
    opt: Any, loss_scale: float | str | LossScale = "dynamic", *, policy: Policy | None = None
) -> Any:
    """Run the safe, expensive ops of every tf.function and session from now on in 16 bits, and scale the loss.

    Args:
        opt: a Keras 3, tf_keras or `tf.compat.v1.train` optimizer. Train with the one that is returned.
        loss_scale: a number, "dynamic", or a `LossScale`.
        policy: what may run in 16 bits, and where; the default policy if None.

    Returns:
        The optimizer, wrapped so that small gradients do not vanish in 16 bits and bad steps are skipped.

    Raises:
        ValueError: a mixed Keras dtype policy is set, or `opt` is wrapped already.
        TypeError: `opt` is not an optimizer.
        MixdownError: this TensorFlow is not one that mixdown can put its hooks into.
    """
    policy = policy_or(policy, Policy())
    if conflict := mixed_keras_policy():
        raise ValueError(
            f"The dtype policy {conflict} is set for all layers: it and the rewrite cannot both choose precisions. "
            f"Set the policy 'float32' again, or do not enable the rewrite."
        )
    if tf.inside_function():
        warn(
            "Mixed precision is being enabled inside a tf.function, where this line runs only while the function is "
            "traced. Enable it before the function is called."
        )
    if hook.sessions_exist():
        warn("There are sessions already: they stay in float32. Enable mixed precision before you make a session.")
    wrapped = _wrap(opt, loss_scale)
    install()
    switch.set(on=True, policy=policy if active_policy.has_effect(policy) else None)
    watch(wrapped)
    return wrapped


def disable_mixed_precision_graph_rewrite() -> None:
    """Run functions and new sessions in float32 again, if they do not already. Wrapped optimizers stay wrapped."""
    switch.set(on=False, policy=None)


@contextmanager
def rewriting(policy: Policy | None = None) -> Iterator[None]:
    """Run what this thread calls inside the `with` block in mixed precision, and nothing else.

    Args:
        policy: what may run in 16 bits, and where; the default policy if None.
    """
    policy = policy_or(policy, Policy())
    install()
    with active_policy.scope(policy if active_policy.has_effect(policy) else None):
        yield


@overload
def rewrite(policy: Policy | None = None) -> Callable[[Function], Function]: ...
@overload
def rewrite(policy: Function) -> Function: ...
def rewrite(policy: Any = None) -> Any:
    """Decorate one function, by preference a tf.function: its calls run in mixed precision, others do not.

    Args:
        policy: what may run in 16 bits, and where; the default policy if None. `@mixdown.rewrite` without brackets is
            the same as `@mixdown.rewrite()`.

    Returns:
        The decorator, or the decorated function if there were no brackets.
    """
    if callable(policy):
        return rewrite()(policy)
    chosen = policy_or(policy, Policy())

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if tf.inside_function():
                warn(
                    f"{getattr(function, '__name__', function)} is decorated with mixdown.rewrite, but called inside "
                    f"another tf.function: decorate the outermost one."
                )
            with rewriting(chosen):
                return function(*args, **kwargs)

        return call

    return decorate


class Switch:
    """Whether mixed precision is enabled; apart from the policy, which is None where no device takes part."""

    on = False

    def set(self, *, on: bool, policy: Policy | None) -> None:
        """Remember whether it is enabled, and put a policy in force for the process, or none."""
        self.on = on
        active_policy.set_process_policy(policy)


switch = Switch()


def _wrap(opt: Any, loss_scale: float | str | LossScale) -> Any:
    if isinstance(opt, LossScale):
        raise TypeError("The first argument is the optimizer, the second the loss scale: a LossScale came first.")
    if isinstance(opt, tf.compat.v1.train.Optimizer):
        return MixedPrecisionLossScaleOptimizer(opt, loss_scale)
    return LossScaleOptimizer(opt, loss_scale)
