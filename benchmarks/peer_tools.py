"""The tools that are compared, each with the same two functions: `wrap` an optimizer, and run a `step` with it.

All of them train by SGD with momentum, which Keras and TensorFlow 1 compute in the same way.
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
"""The choices of TensorFlow 2.21's pass, on any device; the pass itself needs a GPU."""

Step = Callable[[Callable[[], Any], list[Any]], None]
Rate = float | Callable[[], Any]
"""A learning rate, or what gives it at each step."""


class Tool:
    """Plain float32."""

    policy = "float32"

    def wrap(self, period: int = 2000, rate: Rate = RATE) -> Any:
        """A wrapped optimizer whose scale grows after `period` good steps."""
        del period
        return sgd(rate)

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
        """What the tool reports about skipped steps."""
        raise NotImplementedError


class Keras(Tool):
    """Keras 3: the dtype policy mixed_float16, and Keras's own LossScaleOptimizer."""

    policy = "mixed_float16"

    def wrap(self, period: int = 2000, rate: Rate = RATE) -> Any:
        """A wrapped optimizer whose scale grows after `period` good steps."""
        return keras.optimizers.LossScaleOptimizer(sgd(rate), dynamic_growth_steps=period)

    def step(self, optimizer: Any, loss: Callable[[], Any], variables: list[Any]) -> None:
        """Differentiate the scaled loss and apply the gradients."""
        super().step(optimizer, lambda: optimizer.scale_loss(loss()), variables)

    def told(self, optimizer: Any) -> str:
        """Only the number of applied steps is known."""
        inner = int(optimizer.inner_optimizer.iterations.numpy())
        return f"no count; `iterations` {int(optimizer.iterations.numpy())}, the inner optimizer's {inner}"


class Mixdown(Keras):
    """mixdown on all devices."""

    policy = "float32"

    def wrap(self, period: int = 2000, rate: Rate = RATE) -> Any:
        """A wrapped optimizer whose scale grows after `period` good steps."""
        scale = mixdown.DynamicLossScale(increment_period=period)
        return mixdown.enable_mixed_precision_graph_rewrite(sgd(rate), scale, policy=mixdown.Policy(devices="all"))

    def told(self, optimizer: Any) -> str:
        """The number of skipped steps, and the first variable whose gradient was not finite."""
        last = optimizer.offending_variables
        return (
            f"`skipped_steps` {optimizer.skipped_steps}, each with its step and variables ({last[0][0]}: {last[0][1]})"
        )


class TensorFlow(Tool):
    """TensorFlow 2.21's own v1 call, which takes v1 optimizers only."""

    def wrap(self, period: int = 2000, rate: Rate = RATE) -> Any:
        """A wrapped optimizer whose scale grows after `period` good steps."""
        scale = v1.mixed_precision.DynamicLossScale(increment_period=period)
        inner = v1.train.MomentumOptimizer(rate, MOMENTUM)
        optimizer = v1.mixed_precision.enable_mixed_precision_graph_rewrite(inner, scale)
        optimizer.global_step = tf.Variable(0, trainable=False)  # the step counter that its users pass
        return optimizer

    def step(self, optimizer: Any, loss: Callable[[], Any], variables: list[Any]) -> None:
        """Differentiate the scaled loss and apply the gradients."""
        pairs = optimizer.compute_gradients(loss, [getattr(each, "value", each) for each in variables])
        optimizer.apply_gradients(pairs, global_step=optimizer.global_step)

    def rewriting(self) -> Any:
        """Apply TensorFlow's choices: its pass does nothing without a GPU."""
        return mixdown.rewriting(TENSORFLOWS_CHOICES)

    def scale(self, optimizer: Any) -> float:
        """The loss scale."""
        return float(optimizer._loss_scale())

    def told(self, optimizer: Any) -> str:
        """Only a `global_step` counts, if one is passed."""
        return f"no count; the `global_step` passed to it is {int(optimizer.global_step.numpy())}"


TOOLS: dict[str, Tool] = {"float32": Tool(), "tensorflow": TensorFlow(), "keras": Keras(), "mixdown": Mixdown()}
SCALERS = tuple(name for name in TOOLS if name != "float32")


def sgd(rate: Rate = RATE) -> Any:
    """The optimizer that all tools use."""
    return keras.optimizers.SGD(rate, momentum=MOMENTUM)
