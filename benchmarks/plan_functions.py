"""How long planning a training step takes on its first call, compared with tracing it, and when it is traced again.

The steps are those of Keras models, as a user writes them: gradients, then Adam. Each is made, traced and planned;
then the same model is made, traced and planned again, as after `keras.backend.clear_session()`. The figures are
seconds of CPU time of the thread that traces and plans.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("MIXDOWN_LOG", "off")

import keras
import tensorflow as tf
from keras import layers

from mixdown import Policy
from mixdown.tensorflow.calls.twins import Twins
from mixdown.tensorflow.runtime.private import context

POLICY = Policy(devices=("CPU",))
IMAGES, TOKENS = tf.TensorSpec((8, 64, 64, 3)), tf.TensorSpec((8, 32), tf.int32)


def transformer() -> Any:
    """Six encoder blocks."""
    x = inputs = keras.Input((32,), dtype="int32")
    x = layers.Embedding(100, 64)(x)
    for _ in range(6):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 16)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(64)(layers.Dense(128, activation="gelu")(x)))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


MODELS: dict[str, tuple[Callable[[], Any], Any]] = {
    "ResNet50": (lambda: keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10), IMAGES),
    "MobileNetV2": (lambda: keras.applications.MobileNetV2(weights=None, input_shape=(64, 64, 3), classes=10), IMAGES),
    "transformer": (transformer, TOKENS),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated (default: all)")
    options = parser.parse_args(arguments)
    print(f"{'step':12} {'compiled':>8} {'nodes':>6} {'tracing s':>10} {'planning s':>11} {'ratio':>6} {'again s':>8}")
    for name in options.models.split(","):
        for compiled in (False, True):
            twins = Twins(POLICY)
            (nodes, tracing, planning), (_, _, again) = (measured(twins, *MODELS[name], compiled) for _ in range(2))
            figures = f"{tracing:10.2f} {planning:11.3f} {planning / tracing:6.2f} {again:8.3f}"
            print(f"{name:12} {compiled!s:>8} {nodes:6} {figures}", flush=True)


def measured(twins: Twins, make: Callable[[], Any], inputs: Any, compiled: bool) -> tuple[int, float, float]:  # noqa: FBT001 - one of two
    """Make a step; returns its number of nodes, and the seconds of tracing and of planning it."""
    keras.backend.clear_session()
    model, adam = make(), keras.optimizers.Adam()
    adam.build(model.trainable_variables)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(jit_compile=compiled)
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = entropy(y, model(x, training=True))
        adam.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    tracing, function = seconds(lambda: step.get_concrete_function(inputs, tf.TensorSpec((8,), tf.int32)))
    planning, _ = seconds(lambda: twins.of(context(), function.name, "", function.inputs))
    return len(function.function_def.node_def), tracing, planning


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU time of this thread in a call, and what it returned."""
    start = time.thread_time()
    result = call()
    return time.thread_time() - start, result


if __name__ == "__main__":
    main()
