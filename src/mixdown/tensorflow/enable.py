"""Mixed precision for a whole program (`enable_mixed_precision_graph_rewrite`), or for a block or function of it."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, overload

import tensorflow as tf

from mixdown.core import Policy
from mixdown.core.policy import policy_or
from mixdown.errors import PolicyError, WrongTypeError
from mixdown.keras3.either_keras import refuse_mixed_policy
from mixdown.messages import warn
from mixdown.scaling.misuse import watch
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.calls.tuned_twins import TunedTwins
from mixdown.tensorflow.install import install
from mixdown.tensorflow.loss_scaling.loss_scale import LossScale
from mixdown.tensorflow.loss_scaling.optimizers import LossScaleOptimizer, home_of, what_came
from mixdown.tensorflow.loss_scaling.optimizers.v1 import MixedPrecisionLossScaleOptimizer
from mixdown.tensorflow.runtime.private import loss_scale_wrappers
from mixdown.tensorflow.sessions import hook
from mixdown.tensorflow.sessions.tuned_twin import TunedSessionTwin

Function = TypeVar("Function", bound=Callable[..., Any])


def enable_mixed_precision_graph_rewrite(
    opt: Any, loss_scale: float | str | LossScale = "dynamic", *, policy: Policy | None = None
) -> Any:
    """Run every tf.function and session from now on in mixed precision: `mixdown.choose_host` says what is asked."""
    policy = policy_or(policy, Policy())
    refuse_mixed_policy()
    if tf.inside_function():
        warn(
            "Mixed precision is being enabled inside a tf.function, where this line runs only while the function is "
            "traced. Enable it before the function is called."
        )
    if hook.sessions_exist():
        warn("There are sessions already: they stay in float32. Enable mixed precision before you make a session.")
    wrapped = _wrap(opt, loss_scale)
    install()
    active_policy.set_process_policy(policy if active_policy.has_effect(policy) else None)
    watch(wrapped)
    return wrapped


def disable_mixed_precision_graph_rewrite() -> None:
    """Run functions and new sessions in float32 again, if they do not already. Wrapped optimizers stay wrapped."""
    active_policy.set_process_policy(None)


@contextmanager
def rewriting(policy: Policy | None = None) -> Iterator[None]:
    """Run what this thread calls inside the `with` block in mixed precision, and nothing else.

    Args:
        policy: what may run in 16 bits, and where; the default policy if None.

    Returns:
        A context manager, for a `with` statement; it gives nothing.
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


def tuned_policy(policy: Policy | None = None) -> Policy:
    """A policy that is tuned, with what tuning has chosen so far: saved and loaded, it reproduces that anywhere.

    Args:
        policy: the policy; that in force if None.

    Returns:
        A copy with these choices in it.

    Raises:
        PolicyError: it does not have the strategy "tuned".
    """
    policy = policy or active_policy.current_policy()
    if policy is None or policy.strategy != "tuned":
        raise PolicyError(f"Only Policy(strategy='tuned') is tuned, not {policy or 'float32'}.")
    known = dict(policy.choices)
    for twins in (active_policy.twins_for(policy), *(twin for _, twin, _ in hook.seen())):
        if isinstance(twins, TunedTwins | TunedSessionTwin) and twins.policy == policy:
            known |= twins.choices()
    return replace(policy, choices=tuple(sorted(known.items(), key=lambda choice: choice[0])))


def _wrap(opt: Any, loss_scale: float | str | LossScale) -> Any:
    if isinstance(opt, LossScale):
        raise WrongTypeError("The first argument is the optimizer, the second the loss scale: a LossScale came first.")
    if wrap := _registered_wrapper(opt):
        return wrap(opt, loss_scale)
    if isinstance(opt, tf.compat.v1.train.Optimizer):
        return MixedPrecisionLossScaleOptimizer(opt, loss_scale)
    if home_of(opt) is None:  # programs may look for TensorFlow's words
        kinds = "a tf.train.Optimizer or a tf.keras.optimizers.Optimizer"
        raise WrongTypeError(f'"opt" must be an instance of {kinds}, but {what_came(opt)}')
    return LossScaleOptimizer(opt, loss_scale)


def _registered_wrapper(opt: Any) -> Callable[..., Any] | None:
    """The function with which another library wraps this optimizer, if it registered one with TensorFlow.

    As in TensorFlow, the class that was registered first decides; mixdown takes the place of TensorFlow and tf_keras.
    """
    others = [pair for pair in loss_scale_wrappers.values() if not pair[1].__module__.startswith(LIBRARIES)]
    for _, wrapper in others:
        if isinstance(wrapper, type) and isinstance(opt, wrapper):
            again = f'"opt" must not already be an instance of a {wrapper.__name__}.'
            raise ValueError(f"{again} Pass the optimizer it wraps.")  # noqa: TRY004 - as documented
    found: Any = next((pair for kind, pair in loss_scale_wrappers.items() if isinstance(opt, kind)), None)
    return found[0] if found in others else None


LIBRARIES = ("tensorflow.", "tf_keras.", "keras.")
"""Where the wrappers are defined that mixdown's own replace."""
