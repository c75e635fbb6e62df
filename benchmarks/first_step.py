"""The first call of a training step that XLA compiles: plain, with a loss scale, rewritten, and with both.

Run `python benchmarks/first_step.py`. Each way runs in a process of its own. Printed are the seconds of the first call,
tracing included, beside the plain step, and what XLA was given: instructions, computations and conditionals.
"""

import os
import subprocess
import sys
import time

WAYS = ("plain", "Keras's scaler", "scaler", "rewrite", "scaler and rewrite")
WIDTHS = (16, 32, 64, 64, 64, 64, 64)
LINE = "{:20} {:>8} {:>9} {:>13} {:>13} {:>13}"


def main() -> None:
    """Print the table."""
    print(LINE.format("step", "seconds", "/ plain", "instructions", "computations", "conditionals"))
    plain = 0.0
    for way in WAYS:
        seconds, *counts = _measured(way)
        plain = plain or float(seconds)
        print(LINE.format(way, f"{float(seconds):.2f}", f"{float(seconds) / plain:.2f}", *counts), flush=True)


def _measured(way: str) -> list[str]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "MIXDOWN_LOG": "error"}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, __file__, way], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.split()[-4:]


def measure(way: str) -> None:
    """Print seconds and counts of one way; runs in a process of its own."""
    import keras  # noqa: PLC0415 - only the child needs it
    import tensorflow as tf  # noqa: PLC0415 - likewise

    import mixdown  # noqa: PLC0415 - likewise

    layers = keras.layers
    convolutions = [layers.Conv2D(width, 3, padding="same", activation="relu") for width in WIDTHS]
    dense = [layers.GlobalAveragePooling2D(), layers.Dense(64, activation="relu"), layers.Dense(10)]
    model = keras.Sequential([layers.Input((32, 32, 3)), *convolutions, *dense])
    optimizer = keras.optimizers.Adam()
    if way.endswith("rewrite"):
        mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.Adam(), policy=mixdown.Policy(devices="all"))
    if way.startswith("scaler"):
        optimizer = mixdown.LossScaleOptimizer(optimizer)
    if way.startswith("Keras"):
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(jit_compile=True)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            found = loss(labels, model(images, training=True))
            scaled = optimizer.scale_loss(found)
        optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        return found

    batch = tf.ones([8, 32, 32, 3]), tf.zeros([8], tf.int32)
    start = time.perf_counter()
    step(*batch).numpy()
    seconds = time.perf_counter() - start
    text = step.experimental_get_compiler_ir(*batch)(stage="hlo")
    print(seconds, text.count(" = "), text.count("{\n"), text.count("conditional("))


if __name__ == "__main__":
    measure(sys.argv[1]) if sys.argv[1:] else main()
