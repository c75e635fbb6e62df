"""A run under a distribution strategy, in a process of its own; prints what came of it as one line of JSON.

Arguments: strategy (mirrored, workers), then the loops to run, one after the other (custom, keras, normalized,
tf_keras, broken).
"""

import json
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

import mixdown

FEATURES = np.random.default_rng(0).uniform(size=(16, 4)).astype("float32")
TARGETS = FEATURES @ np.ones((4, 1), "float32")
IMAGES = np.random.default_rng(1).uniform(size=(16, 8, 8, 3)).astype("float32")
WEIGHTS = np.linspace(-0.5, 0.5, 4, dtype="float32").reshape(4, 1)
STEPS, RATE = 3, 0.125


def strategy_named(name: str) -> Any:
    if name == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def batches(strategy: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices((FEATURES, TARGETS)).batch(8).repeat()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return strategy.experimental_distribute_dataset(data.with_options(options))


def custom(strategy: Any) -> Any:
    """Linear regression by hand; returns the weights."""
    with strategy.scope():
        weights = tf.Variable(WEIGHTS)

    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.matmul(x, weights) - y) ** 2) / 8.0
        gradient = tape.gradient(loss, weights)
        total = tf.distribute.get_replica_context().all_reduce("sum", gradient)
        weights.assign_sub(RATE * total)

    @tf.function
    def train(iterator: Any) -> None:
        for _ in tf.range(STEPS):
            strategy.run(step, args=next(iterator))

    train(iter(batches(strategy)))
    return weights


def fit(strategy: Any, library: Any) -> Any:
    """The same by a Keras; returns the weights."""
    with strategy.scope():
        layer = library.layers.Dense(1, use_bias=False)
        model = library.Sequential([library.Input((4,)), layer])
        model.set_weights([WEIGHTS])
        model.compile(library.optimizers.SGD(RATE), "mse")
    data = tf.data.Dataset.from_tensor_slices((FEATURES, TARGETS)).batch(8).repeat()
    model.fit(data, steps_per_epoch=STEPS, verbose=0)
    return layer.kernel


def keras(strategy: Any) -> Any:
    import keras as library  # noqa: PLC0415 - only one of the two is needed

    return getattr(fit(strategy, library), "value", None)


def normalized(strategy: Any) -> Any:
    """Convolution and batch normalization by Keras; returns the moving variance."""
    import keras as library  # noqa: PLC0415 - only one of the two is needed

    with strategy.scope():
        norm = library.layers.BatchNormalization()
        layers = [library.layers.Conv2D(4, 3), norm, library.layers.ReLU(), library.layers.Conv2D(1, 3)]
        model = library.Sequential([library.Input((8, 8, 3)), *layers, library.layers.Flatten()])
        model.compile("sgd", "mse")
    model.fit(IMAGES, np.ones((16, 16), "float32"), batch_size=8, verbose=0)
    return norm.moving_variance.value


def tf_keras(strategy: Any) -> Any:
    import tf_keras as library  # noqa: PLC0415 - only one of the two is needed

    return fit(strategy, library)


def broken(strategy: Any) -> Any:
    """A function that fails on the replicas."""

    def user_step(x: Any) -> Any:
        return tf.debugging.check_numerics(tf.matmul(x, x) / 0.0, "on a replica")

    @tf.function
    def user_function(x: Any) -> Any:
        return strategy.run(user_step, args=(x,))

    return user_function(tf.ones((2, 2)))


def replicas(strategy: Any, value: Any) -> list[Any]:
    return [np.asarray(part).tolist() for part in strategy.experimental_local_results(value)]


def main(kind: str, *loops: str) -> None:
    strategy = strategy_named(kind)  # before the probe, which wakes TensorFlow up
    answers = {loop: errors(strategy) if loop == "broken" else outcome(strategy, loop) for loop in loops}
    print(json.dumps(answers))  # noqa: T201 - the answer


def outcome(strategy: Any, loop: str) -> Any:
    from tests.tensorflow.calls.twins_probe import ON_CPU, executed  # noqa: PLC0415 - after the strategy is set up

    run = {"custom": custom, "keras": keras, "tf_keras": tf_keras, "normalized": normalized}[loop]
    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: run(strategy))
    norms = [ran.dtypes(kind) for kind in ("FusedBatchNormV3", "FusedBatchNormGradV3", "SquaredDifference")]
    return {"products": ran.dtypes("MatMul"), "weights": replicas(strategy, ran.value), "norms": norms}


def errors(strategy: Any) -> Any:
    return [error_text(strategy, mixed=mixed) for mixed in (False, True)]


def error_text(strategy: Any, *, mixed: bool) -> str:
    from tests.tensorflow.calls.twins_probe import ON_CPU  # noqa: PLC0415 - after the strategy is set up

    with mixdown.rewriting(ON_CPU) if mixed else nullcontext():
        try:
            broken(strategy)
        except tf.errors.InvalidArgumentError as error:
            return str(error)
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
