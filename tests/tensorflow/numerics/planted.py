"""Models with one op planted in each that overflows float16 and nothing else. Start with MODELS.

Every builder returns a step without arguments. The planted op multiplies numbers around 300 by numbers around 300, in
the forward pass or (with a loss 300 times as steep) in the backward pass; everything else stays small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = 300.0


class Planted(NamedTuple):
    """A model: how to build its step, and which op must be named."""

    build: Callable[[], Callable[[], Any]]
    op: str  # a regular expression for the whole name
    kind: str


MODELS: dict[str, Planted] = {}


def planted(op: str, kind: str) -> Callable[[Any], Any]:
    """Enter a builder in the table."""

    def enter(build: Callable[[], Any]) -> Callable[[], Any]:
        MODELS[build.__name__] = Planted(build, op, kind)
        return build

    return enter


def full_of(value: float, *shape: int) -> tf.Variable:
    return tf.Variable(tf.fill(shape, value))


def gradients(forward: Callable[[], tf.Tensor], *variables: tf.Variable, steepness: float = 1.0) -> Callable[[], Any]:
    """The gradients of the sum of what a forward pass makes."""

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(forward()) * steepness
        return loss, tape.gradient(loss, variables)

    return step


@planted("planted", "MatMul")
def perceptron_forward() -> Any:
    x, w, v = full_of(LARGE, 2, 4), full_of(LARGE, 4, 4), full_of(0.01, 4, 4)
    return gradients(lambda: tf.matmul(tf.nn.relu(tf.matmul(x, w, name="planted")), v), w, v)


@planted("gradient_tape/planted/MatMul", "MatMul")
def perceptron_backward() -> Any:
    x, w, v = full_of(0.001, 2, 4), full_of(0.01, 4, 4), full_of(LARGE, 4, 4)
    return gradients(lambda: tf.matmul(tf.nn.relu(tf.matmul(x, w)), v, name="planted"), w, v, steepness=LARGE)


@planted("gradient_tape/planted/MatMul/MatMul_1|gradient_tape/planted/MatMul_1", "MatMul")
def weight_gradient() -> Any:
    x, w = full_of(LARGE, 2, 4), full_of(0.001, 4, 4)
    return gradients(lambda: tf.matmul(x, w, name="planted"), w, steepness=LARGE)


def convolved(x: tf.Tensor, filters: tf.Variable, name: str) -> tf.Tensor:
    with tf.name_scope(name):
        return tf.nn.conv2d(x, filters, 1, "SAME")


def images(value: float) -> tf.Variable:
    return full_of(value, 1, 6, 6, 2)


@planted("planted/Conv2D", "Conv2D")
def cnn_forward() -> Any:
    x, w, v = images(LARGE), full_of(LARGE, 3, 3, 2, 2), full_of(0.01, 3, 3, 2, 2)

    def forward() -> tf.Tensor:
        hidden = tf.nn.relu(convolved(x, w, "planted"))
        return convolved(hidden, v, "harmless")

    return gradients(forward, w, v)


@planted("gradient_tape/planted/Conv2DBackpropInput", "Conv2DBackpropInput")
def cnn_backward() -> Any:
    x, w, v = images(0.001), full_of(0.01, 3, 3, 2, 2), full_of(LARGE, 3, 3, 2, 2)

    def forward() -> tf.Tensor:
        hidden = tf.nn.relu(convolved(x, w, "harmless"))
        return convolved(hidden, v, "planted")

    return gradients(forward, w, v, steepness=LARGE)


@planted("gradient_tape/planted/Conv2DBackpropFilter", "Conv2DBackpropFilter")
def cnn_filter_gradient() -> Any:
    x, w = images(LARGE), full_of(0.001, 3, 3, 2, 2)
    return gradients(lambda: convolved(x, w, "planted"), w, steepness=LARGE)


@planted("while/planted", "MatMul")
def rnn_loop_forward() -> Any:
    x, w = full_of(1.0, 2, 4), full_of(20.0, 4, 4)

    def forward() -> tf.Tensor:
        loop = tf.while_loop(
            lambda i, _: i < 5, lambda i, h: (i + 1, tf.matmul(h, w, name="planted")), (0, tf.identity(x))
        )
        return loop[1]

    return gradients(forward, w, steepness=1e-6)


@planted(r"gradient_tape/.*planted.*|gradients/.*planted.*", "MatMul")
def rnn_loop_backward() -> Any:
    x, w = full_of(1e-7, 2, 4), full_of(20.0, 4, 4)

    def forward() -> tf.Tensor:
        loop = tf.while_loop(
            lambda i, _: i < 3, lambda i, h: (i + 1, tf.matmul(h, w, name="planted")), (0, tf.identity(x))
        )
        return loop[1]

    return gradients(forward, w, steepness=LARGE)


@planted("while/planted", "MatMul")
def autograph_loop() -> Any:
    x, w = full_of(1.0, 2, 4), full_of(40.0, 4, 4)

    @tf.function
    def step() -> tf.Tensor:
        hidden = tf.identity(x)
        for _ in tf.range(4):
            hidden = tf.matmul(hidden, w, name="planted")
        return hidden

    return step


def attention(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, name: str) -> tf.Tensor:
    weights = tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True, name=name))
    return tf.matmul(weights, values)


@planted("planted", "BatchMatMulV2")
def transformer_forward() -> Any:
    x, q, k = full_of(1.0, 2, 4, 8), full_of(40.0, 8, 8), full_of(40.0, 8, 8)

    def forward() -> tf.Tensor:
        return attention(tf.matmul(x, q), tf.matmul(x, k), x, "planted")

    return gradients(forward, q, k)


@planted("gradient_tape/planted/MatMul", "BatchMatMulV2")
def transformer_backward() -> Any:
    x, q, v = full_of(0.01, 2, 4, 8), full_of(0.1, 8, 8), full_of(LARGE, 2, 8, 8)

    def forward() -> tf.Tensor:
        return tf.matmul(attention(tf.matmul(x, q), x, x, "logits"), v, name="planted")

    return gradients(forward, q, v, steepness=LARGE)


@planted("planted", "MatMul")
def embedding_forward() -> Any:
    table, w = full_of(LARGE, 10, 4), full_of(LARGE, 4, 4)

    def forward() -> tf.Tensor:
        return tf.matmul(tf.gather(table, [1, 5, 7]), w, name="planted")

    return gradients(forward, table, w)


@planted("gradient_tape/planted/MatMul", "MatMul")
def embedding_backward() -> Any:
    table, w = full_of(0.001, 10, 4), full_of(LARGE, 4, 4)

    def forward() -> tf.Tensor:
        return tf.matmul(tf.gather(table, [1, 5, 7]), w, name="planted")

    return gradients(forward, table, w, steepness=LARGE)


@planted("planted", "MatMul")
def raw_ops() -> Any:
    x, w = full_of(LARGE, 2, 4), full_of(LARGE, 4, 4)

    @tf.function
    def step() -> tf.Tensor:
        both = tf.raw_ops.AddN(inputs=[x.read_value(), x.read_value()])
        halved = tf.raw_ops.Mul(x=both, y=tf.constant(0.5))
        product = tf.raw_ops.MatMul(a=halved, b=w.read_value(), name="planted")
        return tf.raw_ops.Tanh(x=tf.raw_ops.Neg(x=product)) + tf.raw_ops.Neg(x=product)

    return step


@planted("planted", "Einsum")
def einsum() -> Any:
    x, w = full_of(LARGE, 2, 3, 4), full_of(LARGE, 4, 5)
    return gradients(lambda: tf.raw_ops.Einsum(inputs=[x, w], equation="abc,cd->abd", name="planted"), x, w)


@planted("cond/planted", "MatMul")
def branch() -> Any:
    x, w = full_of(LARGE, 2, 4), full_of(LARGE, 4, 4)

    @tf.function
    def step() -> tf.Tensor:
        value = tf.identity(x)
        return tf.cond(tf.reduce_sum(value) > 0, lambda: tf.matmul(value, w, name="planted"), lambda: value)

    return step


@planted("planted", "MatMul")
def nested_functions() -> Any:
    x, w = full_of(LARGE, 2, 4), full_of(LARGE, 4, 4)
    inner = tf.function(lambda value: tf.matmul(value, w, name="planted"))
    middle = tf.function(lambda value: tf.nn.relu(inner(value)))
    return tf.function(lambda: middle(tf.matmul(x, tf.eye(4))) + 1.0)


@planted("planted", "MatMul")
def compiled() -> Any:
    x, w = full_of(LARGE, 2, 4), full_of(LARGE, 4, 4)
    return tf.function(lambda: tf.matmul(tf.nn.relu(x), w, name="planted"), jit_compile=True)


@planted("planted", "MatMul")
def value_that_does_not_fit() -> Any:
    """Exp stays in float32; what it makes does not survive the cast for the op that reads it."""
    x, w = full_of(12.0, 2, 4), full_of(0.01, 4, 4)
    return tf.function(lambda: tf.matmul(tf.exp(x), w, name="planted"))


def keras_step(model: Any, x: tf.Tensor, loss_weight: float = 1.0) -> Any:
    """A training step of a Keras model, as `train_on_batch` makes it."""
    model.compile(keras.optimizers.SGD(0.0), loss=lambda _, y: loss_weight * keras.ops.sum(y))
    target = tf.zeros([len(x), 1])
    return lambda: model.train_on_batch(x, target)


def steady(value: float) -> Any:
    return keras.initializers.Constant(value)


@planted("sequential[_0-9]*/planted[_0-9]*/MatMul", "MatMul")
def keras_dense() -> Any:
    layers = [
        keras.layers.Dense(4, kernel_initializer=steady(1.0), name="harmless"),
        keras.layers.Dense(4, kernel_initializer=steady(LARGE), name="planted"),
    ]
    return keras_step(keras.Sequential([keras.Input([4]), *layers], name="sequential"), tf.fill([2, 4], 100.0))


@planted("gradient_tape/sequential[_0-9]*/planted[_0-9]*/convolution/Conv2DBackpropInput", "Conv2DBackpropInput")
def keras_convolution() -> Any:
    layers = [
        keras.layers.Conv2D(2, 3, kernel_initializer=steady(0.01)),
        keras.layers.Conv2D(2, 3, kernel_initializer=steady(LARGE), name="planted"),
        keras.layers.Flatten(),
    ]
    model = keras.Sequential([keras.Input([6, 6, 1]), *layers], name="sequential")
    return keras_step(model, tf.fill([2, 6, 6, 1], 0.001), loss_weight=LARGE)


@planted(".*planted.*MatMul.*", "MatMul")
def keras_recurrent() -> Any:
    layer = keras.layers.SimpleRNN(
        4,
        activation=None,
        kernel_initializer=steady(1.0),
        recurrent_initializer=steady(40.0),
        name="planted",
    )
    return keras_step(keras.Sequential([keras.Input([5, 2]), layer], name="sequential"), tf.ones([2, 5, 2]))


@planted(".*planted.*", "Einsum|BatchMatMulV2")
def keras_attention() -> Any:
    x = inputs = keras.Input([4, 8])
    layer = keras.layers.MultiHeadAttention(2, 4, kernel_initializer=steady(60.0), name="planted")
    model = keras.Model(inputs, layer(x, x), name="functional")
    return keras_step(model, tf.ones([2, 4, 8]))
