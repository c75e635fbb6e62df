"""The one line: `enable_mixed_precision_graph_rewrite`, and its opposite."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mixdown.core import Policy
from mixdown.messages import warn
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.install import install
from mixdown.tensorflow.loss_scaling.loss_scale import LossScale
from mixdown.tensorflow.loss_scaling.misuse import watch
from mixdown.tensorflow.loss_scaling.optimizers import LossScaleOptimizer
from mixdown.tensorflow.loss_scaling.optimizers.v1 import MixedPrecisionLossScaleOptimizer
from mixdown.tensorflow.machine.gates import closed_gate, gate_warning, mixed_keras_policy
from mixdown.tensorflow.sessions import hook


def enable_mixed_precision_graph_rewrite(
    opt: Any, loss_scale: float | str | LossScale = "dynamic", *, policy: Policy | None = None
) -> Any:
    """Run the safe, expensive ops of every tf.function and session from now on in 16 bits, and scale the loss.

    Args:
        opt: a Keras 3, tf_keras or `tf.compat.v1.train` optimizer. Train with the one that is returned.
        loss_scale: a number, "dynamic", or a `LossScale`.
        policy: what may be low, and where; the default policy if None.

    Returns:
        The optimizer, wrapped so that small gradients do not vanish in 16 bits and bad steps are skipped.

    Raises:
        ValueError: a mixed Keras dtype policy is set, or `opt` is wrapped already.
        TypeError: `opt` is not an optimizer.
        MixdownError: this TensorFlow does not take the call boundary that the rewrite needs.
    """
    policy = policy or Policy()
    _refuse_keras_policy()
    if tf.inside_function():
        warn(
            "Mixed precision is being enabled inside a tf.function, where this line runs only while the function is "
            "traced. Enable it before the function is called."
        )
    if hook.sessions_exist():
        warn("There are sessions already: they stay in float32. Enable mixed precision before you make a session.")
    wrapped = _wrap(opt, loss_scale)
    install()
    if gate := closed_gate(policy):
        warn(gate_warning(policy, gate))
    switch.set(on=True, policy=None if gate else policy)
    watch(wrapped)
    return wrapped


def disable_mixed_precision_graph_rewrite() -> None:
    """Run functions and new sessions in float32 again. Wrapped optimizers stay wrapped."""
    if not switch.on:
        warn("Mixed precision is not enabled: there is nothing to disable.")
    switch.set(on=False, policy=None)


class Switch:
    """Whether `enable` was called last, or `disable`; apart from the policy, because a gate may be closed."""

    on = False

    def set(self, *, on: bool, policy: Policy | None) -> None:
        """Note which was called, and put a policy in force for the process, or none."""
        self.on = on
        active_policy.set_process_policy(policy)


switch = Switch()


def _refuse_keras_policy() -> None:
    if conflict := mixed_keras_policy():
        raise ValueError(
            f"The dtype policy {conflict} is set for all layers: it and the rewrite cannot both choose precisions. "
            f"Set the policy 'float32' again, or do not enable the rewrite."
        )


def _wrap(opt: Any, loss_scale: float | str | LossScale) -> Any:
    if isinstance(opt, LossScale):
        raise TypeError("The first argument is the optimizer, the second the loss scale: a LossScale came first.")
    if isinstance(opt, tf.compat.v1.train.Optimizer):
        return MixedPrecisionLossScaleOptimizer(opt, loss_scale)
    return LossScaleOptimizer(opt, loss_scale)
