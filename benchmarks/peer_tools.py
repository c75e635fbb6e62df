"""The tools that are compared, each behind the same two functions: `wrap` an optimizer, and take a `step` with it.

All of them train by stochastic gradient descent with momentum, whose arithmetic Keras and TensorFlow 1 share.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

import mixdown

v1 = tf.compat.v1
RATE, MOMENTUM = 0.05, 0.9
TENSORFLOWS_CHOICES = mixdown.Policy(rules="tf-2.21", strategy="grappler", devices="all")
"""What TensorFlow 2.21's pass chooses, op for op, for a machine without the GPU that the pass itself waits for."""

Step = Callable[[Callable[[], Any], list[Any]], None]


class Tool:
    """float32, with nothing done to it."""

    policy = "float32"

    def wrap(self, period: int = 2000) -> Any:
        """An optimizer; its scale grows after so many good steps."""
        del period
        return sgd()

    def step(self, optimizer: Any, loss: Callable[[], Any], variables: list[Any]) -> None:
        """Differentiate a loss and apply the gradients."""
        with tf.GradientTape() as tape:
            value = loss()
        optimizer.apply(tape.gradient(value, [each.value for each in variables]), variables)

    def rewriting(self) -> Any:
        """The context in which functions are called."""
        return contextlib.nullcontext()

    def scale(self, optimizer: Any) -> float:
        """The loss scale."""
        return float(optimizer.dynamic_scale.value)

    def told(self, optimizer: Any) -> str:
        """What the tool tells of steps that were skipped."""
        raise NotImplementedError


class Keras(Tool):
    """Keras 3: the dtype policy mixed_float16, and Keras's own LossScaleOptimizer."""

    policy = "mixed_float16"

    def wrap(self, period: int = 2000) -> Any:
        """An optimizer; its scale grows after so many good steps."""
        return keras.optimizers.LossScaleOptimizer(sgd(), dynamic_growth_steps=period)

    def step(self, optimizer: Any, loss: Callable[[], Any], variables: list[Any]) -> None:
        """Differentiate the scaled loss and apply the gradients."""
        super().step(optimizer, lambda: optimizer.scale_loss(loss()), variables)

    def told(self, optimizer: Any) -> str:
        """Nothing but how many steps were applied."""
        inner = int(optimizer.inner_optimizer.iterations.numpy())
        return f"no count; `iterations` {int(optimizer.iterations.numpy())}, the inner optimizer's {inner}"


class Mixdown(Keras):
    """mixdown, with every device admitted."""

    policy = "float32"

    def wrap(self, period: int = 2000) -> Any:
        """An optimizer; its scale grows after so many good steps."""
        scale = mixdown.DynamicLossScale(increment_period=period)
        return mixdown.enable_mixed_precision_graph_rewrite(sgd(), scale, policy=mixdown.Policy(devices="all"))

    def told(self, optimizer: Any) -> str:
        """The books."""
        last = optimizer.offending_variables
        return (
            f"`skipped_steps` {optimizer.skipped_steps}, each with its step and variables ({last[0][0]}: {last[0][1]})"
        )


class TensorFlow(Tool):
    """TensorFlow 2.21's own v1 call, which takes v1 optimizers only."""

    def wrap(self, period: int = 2000) -> Any:
        """An optimizer; its scale grows after so many good steps."""
        scale = v1.mixed_precision.DynamicLossScale(increment_period=period)
        inner = v1.train.MomentumOptimizer(RATE, MOMENTUM)
        optimizer = v1.mixed_precision.enable_mixed_precision_graph_rewrite(inner, scale)
        optimizer.global_step = tf.Variable(0, trainable=False)  # what its users count steps with
        return optimizer

    def step(self, optimizer: Any, loss: Callable[[], Any], variables: list[Any]) -> None:
        """Differentiate the scaled loss and apply the gradients."""
        pairs = optimizer.compute_gradients(loss, [getattr(each, "value", each) for each in variables])
        optimizer.apply_gradients(pairs, global_step=optimizer.global_step)

    def rewriting(self) -> Any:
        """TensorFlow's pass does not act without a GPU: its choices do."""
        return mixdown.rewriting(TENSORFLOWS_CHOICES)

    def scale(self, optimizer: Any) -> float:
        """The loss scale."""
        return float(optimizer._loss_scale())

    def told(self, optimizer: Any) -> str:
        """Nothing but a `global_step`, where one is passed."""
        return f"no count; the `global_step` passed to it is {int(optimizer.global_step.numpy())}"


TOOLS: dict[str, Tool] = {"float32": Tool(), "tensorflow": TensorFlow(), "keras": Keras(), "mixdown": Mixdown()}
SCALERS = tuple(name for name in TOOLS if name != "float32")


def sgd() -> Any:
    """The optimizer that all use."""
    return keras.optimizers.SGD(RATE, momentum=MOMENTUM)
