"""Keras 3: fit, evaluate and predict, compiled by XLA or not, run their layers in 16 bits, op by op."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import BFLOAT16, ON_CPU, Execution, compared, executed

import mixdown

IMAGES = np.random.default_rng(0).uniform(size=(16, 6, 6, 2)).astype("float32")
ROWS = IMAGES.reshape(16, 72)
LABELS = np.arange(16) % 3
CONVOLUTIONS = ("Conv2D", "Conv2DBackpropFilter")


def dense() -> Any:
    return [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)]


def convolutional() -> Any:
    return [
        keras.layers.Conv2D(4, 3, use_bias=False),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras.layers.Conv2D(4, 3),
        keras.layers.MaxPooling2D(2),
        keras.layers.Flatten(),
        keras.layers.Dense(3),
    ]


def built(layers: Any, shape: tuple[int, ...], **options: Any) -> Any:
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input(shape), *layers()])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, metrics=["accuracy"], **options)
    return model


def trained(model: Any, data: Any) -> Any:
    model.fit(data, LABELS, batch_size=4, epochs=1, shuffle=False, verbose=0)
    return model.get_weights()


def fitted(layers: Any, data: Any, policy: mixdown.Policy = ON_CPU, **options: Any) -> Execution:
    """Fit one model in float32 and its equal mixed, which must end up close to it."""
    expected = trained(built(layers, data.shape[1:], **options), data)
    model = built(layers, data.shape[1:], **options)
    with mixdown.rewriting(policy):
        ran = executed(lambda: trained(model, data))
    for mixed, plain in zip(ran.value, expected, strict=True):
        assert mixed.dtype == np.float32
        np.testing.assert_allclose(mixed, plain, rtol=0.05, atol=0.05 if policy.low == "bfloat16" else 0.01)
    return ran


@pytest.mark.parametrize(
    ("jit_compile", "steps_per_execution"),
    [("auto", 1), (True, 1), (False, 1), (False, 4), pytest.param(True, 4, marks=pytest.mark.slow)],
)
def test_fit(jit_compile: Any, steps_per_execution: int) -> None:
    ran = fitted(dense, ROWS, jit_compile=jit_compile, steps_per_execution=steps_per_execution)
    assert ran.all_low("MatMul", "Relu")
    assert len(ran.dtypes("MatMul")) >= 5  # two forward, three backward
    assert ran.all_full("SparseSoftmaxCrossEntropyWithLogits")


@pytest.mark.parametrize("jit_compile", [True, False])
def test_fit_of_a_network_with_batch_normalization(jit_compile: bool) -> None:  # noqa: FBT001 - a parameter
    ran = fitted(convolutional, IMAGES, jit_compile=jit_compile)
    assert ran.all_low(*CONVOLUTIONS, "Conv2DBackpropInput", "MatMul", "MaxPool", "MaxPoolGrad")
    assert bool(ran.dtypes("FusedBatchNormV3")) is not jit_compile  # a compiler fuses what is spelled out


def test_fit_in_bfloat16() -> None:
    ran = fitted(convolutional, IMAGES, BFLOAT16, jit_compile=False)
    assert ran.all_low(*CONVOLUTIONS, "MatMul", "FusedBatchNormV3", "FusedBatchNormGradV3", low="bfloat16")


@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_evaluate_and_predict(method: str, jit_compile: bool) -> None:  # noqa: FBT001 - a parameter
    model = built(convolutional, IMAGES.shape[1:], jit_compile=jit_compile)
    data = (IMAGES,) if method == "predict" else (IMAGES, LABELS)
    ran = compared(lambda: getattr(model, method)(*data, batch_size=8, verbose=0))
    assert ran.all_low("Conv2D", "MatMul", "MaxPool")


def test_training_goes_on_in_float32_after_the_block() -> None:
    """The model compiled and trained inside is the one that trains, bit for bit as ever, outside."""
    model, reference = (built(dense, ROWS.shape[1:], jit_compile=False) for _ in range(2))
    with mixdown.rewriting(ON_CPU):
        trained(model, ROWS)
    trained(reference, ROWS)
    reference.set_weights(model.get_weights())
    for mine, its in zip(reference.optimizer.variables, model.optimizer.variables, strict=True):
        mine.assign(its)
    for mixed, plain in zip(trained(model, ROWS), trained(reference, ROWS), strict=True):
        np.testing.assert_array_equal(mixed, plain)


def test_train_on_batch_and_custom_train_step() -> None:
    class Own(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"loss": loss}

    model = Own([keras.Input((72,)), *dense()])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: model.train_on_batch(ROWS, LABELS))
    assert ran.all_low("MatMul", "Relu")


RECURRENT = {
    "lstm": lambda: keras.layers.LSTM(4),
    "gru": lambda: keras.layers.GRU(4),
    "simple": lambda: keras.layers.SimpleRNN(4),
    "bidirectional": lambda: keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True)),
}


@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_layers_and_what_they_keep_for_the_gradient(kind: str) -> None:
    assert_recurrent_layer_is_low(RECURRENT[kind](), compiler=False)


@pytest.mark.parametrize("kind", ["lstm", *(pytest.param(k, marks=pytest.mark.slow) for k in RECURRENT if k != "lstm")])
def test_compiled_recurrent_layers(kind: str) -> None:
    assert_recurrent_layer_is_low(RECURRENT[kind](), compiler=True)


def assert_recurrent_layer_is_low(layer: Any, *, compiler: bool) -> None:
    layer.build((4, 5, 3))

    @tf.function(jit_compile=compiler)
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x))
        return tape.gradient(loss, layer.trainable_variables)

    x = tf.random.stateless_uniform((4, 5, 3), (1, 2))
    ran = compared(lambda: gradient(x))
    assert ran.all_low("MatMul", "EmptyTensorList", "TensorListPushBack", "TensorListPopBack")
    # Keras also calls the cell once outside the loop, to learn its shapes; that result is thrown away.
    assert {node.dtype for node in ran.nodes if node.kind == "Tanh" and "while" in node.name} == {"float16"}


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


def test_attention_and_embedding() -> None:
    ids = tf.constant([[1, 2, 3], [4, 5, 6]])
    embedding, attention = keras.layers.Embedding(10, 8), keras.layers.MultiHeadAttention(2, 4)
    normalization = keras.layers.LayerNormalization()

    @tf.function
    def gradient(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            x = embedding(ids)
            loss = tf.reduce_sum(normalization(x + attention(x, x)) ** 2)
        return tape.gradient(loss, attention.trainable_variables)

    ran = compared(lambda: gradient(ids))
    products = [node.dtype for node in ran.nodes if node.kind in ("Einsum", "BatchMatMulV2", "MatMul")]
    assert set(products) == {"float16"}
    assert ran.all_full("Softmax")
