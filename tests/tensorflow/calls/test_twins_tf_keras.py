"""tf_keras: fit and its RNN layers, whose functions TensorFlow chooses by device and would swap back to float32."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tests.tensorflow.calls.twins_probe import ON_CPU, Execution, compared, executed

import mixdown

SERIES = np.random.default_rng(0).uniform(size=(16, 6, 3)).astype("float32")
LABELS = np.arange(16) % 3
X = tf.constant(SERIES[:4])


def convolutional() -> Any:
    return [
        tf_keras.layers.Conv1D(4, 3),
        tf_keras.layers.BatchNormalization(),
        tf_keras.layers.ReLU(),
        tf_keras.layers.GlobalMaxPooling1D(),
        tf_keras.layers.Dense(3),
    ]


def recurrent() -> Any:
    return [tf_keras.layers.LSTM(4, return_sequences=True), tf_keras.layers.GRU(4), tf_keras.layers.Dense(3)]


def built(layers: Any, optimizer: Any, **options: Any) -> Any:
    tf_keras.utils.set_random_seed(7)
    model = tf_keras.Sequential([tf_keras.Input(SERIES.shape[1:]), *layers()])
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer(0.1), loss, metrics=["accuracy"], **options)
    return model


def trained(model: Any) -> Any:
    model.fit(SERIES, LABELS, batch_size=4, epochs=1, shuffle=False, verbose=0)
    return model.get_weights()


def fitted(layers: Any, optimizer: Any = tf_keras.optimizers.SGD, **options: Any) -> Execution:
    """Fit one model in float32 and its equal mixed, which must end up close to it."""
    expected = trained(built(layers, optimizer, **options))
    model = built(layers, optimizer, **options)
    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: trained(model))
    for mixed, plain in zip(ran.value, expected, strict=True):
        np.testing.assert_allclose(mixed, plain, rtol=0.05, atol=0.01)
    return ran


@pytest.mark.parametrize("optimizer", [tf_keras.optimizers.SGD, tf_keras.optimizers.legacy.SGD])
def test_fit(optimizer: Any) -> None:
    ran = fitted(convolutional, optimizer)
    assert ran.all_low("Conv2D", "Conv2DBackpropFilter", "MatMul")
    assert ran.all_full("SparseSoftmaxCrossEntropyWithLogits")


def test_fit_compiled_by_xla() -> None:
    ran = fitted(convolutional, jit_compile=True)
    assert ran.all_low("Conv2D", "Conv2DBackpropFilter", "MatMul")


def test_fit_with_several_steps_per_execution() -> None:
    ran = fitted(convolutional, steps_per_execution=4)
    assert ran.all_low("Conv2D", "Conv2DBackpropFilter", "MatMul")


def test_fit_of_recurrent_layers() -> None:
    ran = fitted(recurrent)
    assert ran.all_low("MatMul", "TensorListPushBack", "TensorListPopBack")


@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_evaluate_and_predict(method: str) -> None:
    model = built(convolutional, tf_keras.optimizers.SGD)
    data = (SERIES,) if method == "predict" else (SERIES, LABELS)
    ran = compared(lambda: getattr(model, method)(*data, batch_size=8, verbose=0))
    assert ran.all_low("Conv2D", "MatMul")


RECURRENT = {
    "lstm": lambda: tf_keras.layers.LSTM(4),
    "gru": lambda: tf_keras.layers.GRU(4),
    "bidirectional": lambda: tf_keras.layers.Bidirectional(tf_keras.layers.LSTM(3, return_sequences=True)),
    "simple": lambda: tf_keras.layers.SimpleRNN(4),
}


@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_layers_run_low_in_what_tensorflow_chose_to_run(kind: str) -> None:
    layer = RECURRENT[kind]()
    layer.build(X.shape)
    function = tf.function(layer)
    ran = compared(lambda: function(X))
    assert ran.all_low("MatMul", "TensorListGetItem", "TensorListSetItem")
    assert in_loops(ran, "Tanh") == {"float16"}


@pytest.mark.parametrize("kind", RECURRENT)
def test_gradients_of_recurrent_layers_keep_their_values_in_float16(kind: str) -> None:
    layer = RECURRENT[kind]()
    layer.build(X.shape)

    @tf.function
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x))
        return tape.gradient(loss, layer.trainable_variables)

    ran = compared(lambda: gradient(X))
    assert ran.all_low("MatMul", "TensorListPushBack", "TensorListPopBack")
    assert in_loops(ran, "Tanh") == {"float16"}


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_product_in_a_recurrent_layer_overflows(kind: str) -> None:
    """300 * 300 - 90,000 is 0, and so is the layer's output; in float16 it is infinity minus infinity."""
    layer = RECURRENT[kind]()
    layer.build((1, 2, 1))
    kernel, recurrent, bias = layer.get_weights()
    bias[...] = 0.0
    (bias if kind == "lstm" else bias[0])[:] = -90_000.0  # a GRU has a second row of biases, for what recurs
    layer.set_weights([0.0 * kernel + 300.0, 0.0 * recurrent, bias])
    function, x = tf.function(layer), tf.fill((1, 2, 1), 300.0)
    assert not np.any(function(x))
    with mixdown.rewriting(ON_CPU):
        assert np.isnan(function(x)).all()


def in_loops(ran: Execution, kind: str) -> set[str]:
    """The dtypes of a kind inside loops: the cell also runs once outside, to learn its shapes, and is thrown away."""
    return {node.dtype for node in ran.nodes if node.kind == kind and "while" in node.name}


def test_functions_that_tensorflow_may_choose_from_can_share_a_helper() -> None:
    helper = tf.function(lambda x: tf.matmul(x, x))

    def implementation(device: str, python: Any) -> Any:
        attributes = {"api_implements": "shared", "api_preferred_device": device}
        return tf.function(python, experimental_attributes=attributes)

    on_cpu = implementation("CPU", lambda x: tf.identity(helper(x)))
    on_gpu = implementation("GPU", lambda x: helper(x) + 0.0)
    alternative = on_gpu.get_concrete_function(tf.TensorSpec([1, 1]))
    function, large = tf.function(lambda x: tf.nn.relu(on_cpu(x))), tf.constant([[300.0]])
    with mixdown.rewriting(ON_CPU):
        assert np.isinf(function(large)).all()
        assert np.isinf(alternative(large)).all()
    assert function(large).numpy().item() == 90_000.0
