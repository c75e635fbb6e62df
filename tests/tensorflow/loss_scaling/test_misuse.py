"""Misuse gets a message of its own, once; correct use gets none."""

import gc
import os
import subprocess
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tests import fresh
from tests.tensorflow.sessions.session_lab import close_sessions

import mixdown
from mixdown.tensorflow.calls import active_policy

v1 = tf.compat.v1
CPU_TOO = mixdown.Policy(devices=("GPU", "CPU"))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    yield
    active_policy.set_process_policy(None)
    keras.config.set_dtype_policy("float32")


def enable(optimizer: Any) -> Any:
    return mixdown.enable_mixed_precision_graph_rewrite(optimizer, policy=CPU_TOO)


def messages(script: Callable[[], Any]) -> list[str]:
    """What a script is told: the texts of its warnings, and of the error that stopped it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = []
        try:
            script()
        except (TypeError, ValueError) as error:
            told.append(str(error))
        gc.collect()
    kinds = (mixdown.MixdownWarning, mixdown.LossScaleWarning)
    ours = [str(warning.message) for warning in caught if issubclass(warning.category, kinds)]
    return told + ours


def variable_and_loss() -> tuple[tf.Variable, Callable[[], tf.Tensor]]:
    variable = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    return variable, lambda: tf.reduce_sum(tf.matmul(variable, variable))


def data() -> tuple[Any, Any]:
    return np.ones([8, 4], np.float32), np.zeros([8, 1], np.float32)


def bare_tape_keras3() -> None:
    optimizer, (variable, loss) = enable(keras.optimizers.SGD()), variable_and_loss()
    for _ in range(2):
        with tf.GradientTape() as tape:
            value = loss()
        optimizer.apply(tape.gradient(value, [variable]), [variable])


def bare_tape_tf_keras() -> None:
    optimizer, (variable, loss) = enable(tf_keras.optimizers.SGD()), variable_and_loss()
    for _ in range(2):
        with tf.GradientTape() as tape:
            value = loss()
        optimizer.apply_gradients([(tape.gradient(value, variable), variable)])


def bare_gradients_v1() -> None:
    optimizer, (variable, loss) = enable(v1.train.GradientDescentOptimizer(0.1)), variable_and_loss()
    for _ in range(2):
        with tf.GradientTape() as tape:
            value = loss()
        optimizer.apply_gradients([(tape.gradient(value, variable), variable)])


def thrown_away() -> None:
    enable(keras.optimizers.SGD())


def inside_a_function() -> None:
    made: list[Any] = []
    variable, loss = variable_and_loss()

    @tf.function
    def train() -> None:
        if not made:
            made.append(enable(v1.train.GradientDescentOptimizer(0.1)))
        made[0].minimize(loss, var_list=[variable])

    train()


def loss_scale_first() -> None:
    enable(mixdown.DynamicLossScale())


def class_instead_of_instance() -> None:
    enable(keras.optimizers.SGD)


def wrapped_twice() -> None:
    optimizer = enable(keras.optimizers.SGD())
    optimizer.scale_loss(tf.constant(1.0))
    enable(optimizer)


def mixed_policy_before() -> None:
    keras.config.set_dtype_policy("mixed_float16")
    enable(keras.optimizers.SGD())


def mixed_policy_after() -> None:
    optimizer = enable(keras.optimizers.SGD())
    optimizer.scale_loss(tf.constant(1.0))
    keras.config.set_dtype_policy("mixed_float16")
    tf.function(tf.matmul)([[1.0]], [[1.0]])


def session_before() -> None:
    with tf.Graph().as_default(), v1.Session():
        optimizer = enable(v1.train.GradientDescentOptimizer(0.1))
        variable = v1.get_variable("v", initializer=1.0)
        optimizer.minimize(variable * variable)


def run_eagerly(library: Any) -> None:
    model = library.Sequential([library.layers.Input((4,)), library.layers.Dense(2)])
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(library.optimizers.SGD(), policy=CPU_TOO)
    model.compile(optimizer, "mse", run_eagerly=True)
    model.fit(np.ones([8, 4]), np.ones([8, 2]), batch_size=4, verbose=0)


def run_eagerly_keras3() -> None:
    run_eagerly(keras)


def run_eagerly_tf_keras() -> None:
    run_eagerly(tf_keras)


def no_eligible_device() -> None:
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD())
    optimizer.scale_loss(tf.constant(1.0))


def decorated_inner_function() -> None:
    inner = mixdown.rewrite(CPU_TOO)(tf.function(tf.matmul))
    tf.function(lambda: inner([[1.0]], [[1.0]]))()


MISUSE = {
    bare_tape_keras3: "never scaled: they are not divided by the loss scale",
    bare_tape_tf_keras: "apply_gradients was given gradients of a loss that was never scaled: they may underflow",
    bare_gradients_v1: "never scaled: small ones may have become zero in 16 bits",
    thrown_away: "was thrown away",
    inside_a_function: "enabled inside a tf.function",
    loss_scale_first: "a LossScale came first",
    class_instead_of_instance: "class",
    wrapped_twice: "already",
    mixed_policy_before: "is set for all layers",
    mixed_policy_after: "was set after mixed precision was enabled",
    session_before: "There are sessions already",
    run_eagerly_keras3: "it runs eagerly, op by op, so there is no graph to rewrite. Compile the model without",
    run_eagerly_tf_keras: "it runs eagerly, op by op",
    no_eligible_device: "there is no GPU",
    decorated_inner_function: "decorate the outermost one",
}


@pytest.fixture(autouse=True, scope="module")
def nothing_left_open() -> None:
    close_sessions()


@pytest.mark.parametrize("script", MISUSE, ids=lambda script: script.__name__)
def test_misuse_gets_its_own_message_once(script: Callable[[], None]) -> None:
    told = messages(script)
    assert len(told) == 1, told
    assert MISUSE[script] in told[0]


def test_messages_are_distinct() -> None:
    assert len(set(MISUSE.values())) == len(MISUSE)


def test_optimizer_that_is_kept_but_never_used_is_spoken_of_at_the_end() -> None:
    script = (
        "import keras, mixdown\nimport numpy as np\n"
        "opt = keras.optimizers.SGD()\n"
        "kept = mixdown.enable_mixed_precision_graph_rewrite(opt, policy=mixdown.Policy(devices='all'))\n"
        "model = keras.Sequential([keras.layers.Dense(1)])\n"
        "model.compile(opt, 'mse')\n"
        "model.fit(np.ones([1, 1]), np.ones([1, 1]), verbose=0)\n"
    )
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*fresh.python(), "-c", script], capture_output=True, text=True, env=environment, check=True, timeout=300
    )
    assert done.stderr.count("MixdownWarning") == 1
    assert "was never used" in done.stderr


def keras3_fit() -> None:
    model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
    model.compile(enable(keras.optimizers.SGD()), "mse")
    model.fit(*data(), verbose=0)
    model.predict(data()[0], verbose=0)


def keras3_loop() -> None:
    optimizer, (variable, loss) = enable(keras.optimizers.Adam()), variable_and_loss()
    with tf.GradientTape() as tape:
        value = optimizer.scale_loss(loss())
    optimizer.apply(tape.gradient(value, [variable]), [variable])


def keras3_function() -> None:
    optimizer, (variable, loss) = enable(keras.optimizers.SGD()), variable_and_loss()
    optimizer.build([variable])

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            value = optimizer.scale_loss(loss())
        optimizer.apply(tape.gradient(value, [variable]), [variable])

    step()


def tf_keras_fit() -> None:
    model = tf_keras.Sequential([tf_keras.layers.Dense(4, activation="relu"), tf_keras.layers.Dense(1)])
    model.compile(enable(tf_keras.optimizers.SGD()), "mse")
    model.fit(*data(), verbose=0)


def tf_keras_loop() -> None:
    optimizer, (variable, loss) = enable(tf_keras.optimizers.SGD()), variable_and_loss()
    with tf.GradientTape() as tape:
        value = optimizer.get_scaled_loss(loss())
    gradients = optimizer.get_unscaled_gradients([tape.gradient(value, variable)])
    optimizer.apply_gradients([(gradients[0], variable)])


def legacy_minimize() -> None:
    optimizer, (variable, loss) = enable(tf_keras.optimizers.legacy.SGD()), variable_and_loss()
    optimizer.minimize(loss, [variable])


def v1_session() -> None:
    with tf.Graph().as_default():
        optimizer = enable(v1.train.AdamOptimizer())
        variable = v1.get_variable("v", initializer=[[1.0]])
        train = optimizer.minimize(tf.reduce_sum(tf.matmul(variable, variable)))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(train)


def v1_eager() -> None:
    optimizer, (variable, loss) = enable(v1.train.GradientDescentOptimizer(0.1)), variable_and_loss()
    optimizer.minimize(loss, var_list=[variable])


def scoped() -> None:
    with mixdown.rewriting(CPU_TOO):
        tf.function(tf.matmul)([[1.0]], [[1.0]])


def on_and_off_and_on() -> None:
    keras3_loop()
    mixdown.disable_mixed_precision_graph_rewrite()
    keras3_loop()
    mixdown.disable_mixed_precision_graph_rewrite()


CORRECT = [
    keras3_fit,
    keras3_loop,
    keras3_function,
    tf_keras_fit,
    tf_keras_loop,
    legacy_minimize,
    v1_session,
    v1_eager,
    scoped,
    on_and_off_and_on,
]


@pytest.mark.parametrize("script", CORRECT, ids=lambda script: script.__name__)
def test_correct_use_gets_no_message(script: Callable[[], None]) -> None:
    assert messages(script) == []
