"""What every model of the corpus shares: one training step for Keras 3 and for tf_keras."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
import tf_keras
from benchmarks.flat_graph import Step

BATCH = 32
LIBRARIES = {"k3": keras, "k2": tf_keras}


def adam(library: Any) -> Any:
    """Adam that is not compiled on its own: a compiled function cannot be inlined."""
    return library.optimizers.Adam(1e-3, **not_compiled(library))


def sgd(library: Any, momentum: float = 0.9) -> Any:
    """SGD, with momentum unless told otherwise."""
    return library.optimizers.SGD(0.1, momentum=momentum, **not_compiled(library))


def not_compiled(library: Any) -> dict[str, bool]:
    """Only tf_keras optimizers compile themselves, and only they take the argument."""
    return {"jit_compile": False} if library is tf_keras else {}


def apply_updates(optimizer: Any, tape: Any, loss: Any, variables: Sequence[Any]) -> None:
    """Differentiate the loss and let the optimizer update the variables."""
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))


def supervised_step(
    model: Any,
    optimizer: Any,
    loss_of: Callable[[Any, Any], Any],
    inputs: Sequence[tf.TensorSpec],
    target: tf.TensorSpec,
) -> Step:
    """Forward, backward and update of a model that maps its inputs to a target."""
    variables = model.trainable_variables
    optimizer.build(variables)

    def run(*arguments: Any) -> Any:
        *features, expected = arguments
        with tf.GradientTape() as tape:
            predicted = model(features if len(features) > 1 else features[0], training=True)
            loss = tf.reduce_mean(loss_of(expected, predicted))
        apply_updates(optimizer, tape, loss, variables)
        return loss

    return Step(run, (*inputs, target))


def floats(*shape: int) -> tf.TensorSpec:
    """Describe a batch of float32 arrays."""
    return tf.TensorSpec((BATCH, *shape), tf.float32)


def integers(*shape: int) -> tf.TensorSpec:
    """Describe a batch of int32 arrays."""
    return tf.TensorSpec((BATCH, *shape), tf.int32)
