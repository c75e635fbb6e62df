"""Angles, masks, positions and counts stay float32: results against float64 and against Keras's policy."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.graph_kit import graph_of, out, x
from tests.tensorflow.reading.exact_layers import (
    ANGLES,
    Identity,
    Rotary,
    Sinusoidal,
    masked,
    rotary_in_float64,
    sinusoidal_in_float64,
)

import mixdown
from mixdown import rewrite_graph_def

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOWS = ("float16", "bfloat16")
both = pytest.mark.parametrize("low", LOWS)
compiled_or_not = pytest.mark.parametrize("jit", [False, True], ids=["graph", "compiled"])
LOWEST = (-1e4, -1e9, float(np.finfo(np.float32).min))


def policy(low: str) -> mixdown.Policy:
    return mixdown.Policy(low=low, devices=("CPU",))


def run(fn: Callable[..., Any], *args: Any, low: str = "", jit: bool = False) -> np.ndarray[Any, Any]:
    """The result of a function, with the rewrite if a 16-bit dtype is named."""
    step = tf.function(fn, jit_compile=jit, autograph=False)
    if not low:
        return np.asarray(tf.cast(step(*args), tf.float32))
    with mixdown.rewriting(policy(low)):
        result = step(*args)
    (planned,) = mixdown.explain(step, *args, policy=policy(low)).graphs
    assert planned.low_ops, "nothing runs in 16 bits"
    return np.asarray(result)


def stack(layers: Sequence[Callable[..., Any]], dtype: str) -> Callable[[Any], Any]:
    """Some layers of one dtype policy, one after the other."""
    made = [layer(dtype=dtype) for layer in layers]

    def call(values: Any) -> Any:
        for layer in made:
            values = layer(values)
        return values

    return call


def errors(layers: Sequence[Callable[..., Any]], given: Any, want: Any, low: str, *, jit: bool) -> Any:
    """The root mean square error per position, by mixdown and by Keras's policy."""
    ours = run(stack(layers, "float32"), given, low=low, jit=jit)
    theirs = run(stack(layers, f"mixed_{low}"), given, jit=jit)
    axes = tuple(axis for axis in range(want.ndim) if axis != want.ndim - 2)
    return [np.sqrt(((result.astype(np.float64) - want) ** 2).mean(axes)) for result in (ours, theirs)]


def rotary_errors(angles: str, length: int, low: str, *, jit: bool) -> Any:
    values = np.random.default_rng(0).normal(size=(2, length, 64)).astype(np.float32)
    layers = (Identity, lambda dtype: Rotary(ANGLES[angles], dtype=dtype), Identity)
    return errors(layers, values, rotary_in_float64(values), low, jit=jit)


@both
@compiled_or_not
@pytest.mark.parametrize("angles", ANGLES)
def test_rotary_embeddings_are_as_exact_as_under_keras_policy(angles: str, low: str, *, jit: bool) -> None:
    ours, theirs = rotary_errors(angles, 4096, low, jit=jit)
    assert (ours <= 1.2 * theirs).all()


@pytest.mark.slow
@both
@compiled_or_not
@pytest.mark.parametrize("angles", ANGLES)
def test_rotary_embeddings_of_long_texts(angles: str, low: str, *, jit: bool) -> None:
    ours, theirs = rotary_errors(angles, 32_768, low, jit=jit)
    assert (ours <= 1.2 * theirs).all()


@both
@compiled_or_not
@pytest.mark.parametrize("angles", ANGLES)
def test_time_embeddings_of_integer_steps_are_as_exact_as_under_keras_policy(
    angles: str, low: str, *, jit: bool
) -> None:
    steps = np.arange(0, 4000, 7, dtype=np.int32)
    layers = (lambda dtype: Sinusoidal(ANGLES[angles], dtype=dtype), Identity)
    ours, theirs = errors(layers, steps, sinusoidal_in_float64(steps), low, jit=jit)
    assert (ours <= 1.2 * theirs + 1e-7).all()


class Attention(keras.layers.Layer):
    """Attention of Llama or Gemma: normalized by the root mean square, rotated, causal, and gated afterwards."""

    def __init__(self, style: str, **options: Any) -> None:
        super().__init__(**options)
        self.style = style
        self.rotary = Rotary(ANGLES["einsum" if style == "llama" else "broadcast"], dtype=self.dtype_policy)
        self.parts = [keras.layers.Dense(64, use_bias=False, dtype=self.dtype_policy) for _ in range(6)]

    def call(self, values: Any) -> Any:
        query, key, value, out, gate, up = self.parts
        exact = keras.ops.cast(values, "float32")
        scale = keras.ops.rsqrt(keras.ops.mean(exact * exact, axis=-1, keepdims=True) + 1e-6)
        normal = keras.ops.cast(exact * scale, self.compute_dtype)
        scores = keras.ops.einsum("bqd,bkd->bqk", self.rotary(query(normal)), self.rotary(key(normal))) / 8.0
        if self.style == "gemma":
            scores = 50.0 * keras.ops.tanh(scores / 50.0)
        length = values.shape[1]
        causal = np.tril(np.ones((length, length), np.float32))
        lowest = -1e9 if self.style == "gemma" else LOWEST[-1]
        scores = keras.ops.where(causal > 0, keras.ops.cast(scores, "float32"), lowest)
        weights = keras.ops.cast(keras.ops.softmax(scores), self.compute_dtype)
        mixed = values + out(keras.ops.einsum("bqk,bkd->bqd", weights, value(normal)))
        return mixed + keras.ops.silu(gate(mixed)) * up(mixed)


@both
@compiled_or_not
@pytest.mark.parametrize("style", ["llama", "gemma"])
def test_a_block_of_a_language_model_is_as_exact_as_under_keras_policy(style: str, low: str, *, jit: bool) -> None:
    values = np.random.default_rng(1).normal(size=(2, 96, 64)).astype(np.float32)
    models = {}
    for dtype in ("float64", "float32", f"mixed_{low}"):
        keras.utils.set_random_seed(7)
        models[dtype] = Attention(style, dtype=dtype)
        models[dtype](values)
    for model in models.values():
        model.set_weights(models["float32"].get_weights())
    want = models["float64"](values.astype(np.float64)).numpy()
    ours = run(models["float32"], values, low=low, jit=jit)
    theirs = run(models[f"mixed_{low}"], values, jit=jit)
    error, other = (np.sqrt(((result - want) ** 2).mean()) for result in (ours, theirs))
    assert error <= 1.2 * other


@both
@compiled_or_not
@pytest.mark.parametrize("shape", [(1, 1, 4), (2, 3, 8), (2, 2, 33)])
def test_masks_never_make_nan(shape: tuple[int, int, int], low: str, *, jit: bool) -> None:
    batch, _, length = shape
    rng = np.random.default_rng(2)
    values = rng.normal(size=(batch, length, 16)).astype(np.float32)
    mask = rng.integers(0, 2, size=(batch, 1, length), dtype=np.int32)
    mask[1:, :, 0] = 1
    mask[0] = 0  # nothing may be looked at: what comes out means nothing, but it must be finite

    def attend(values: Any, mask: Any) -> Any:
        results = []
        for how, lowest in product(("added", "multiplied", "selected"), LOWEST):
            with tf.GradientTape() as tape:
                tape.watch(values)
                scores = tf.matmul(values, values, transpose_b=True)
                weights = tf.nn.softmax(masked(scores, mask, how, lowest))
                mixed = tf.matmul(weights, values)
                loss = tf.reduce_sum(mixed * mixed)
            results += [mixed, tape.gradient(loss, values)]
        return tf.stack(results)

    ours, plain = run(attend, values, mask, low=low, jit=jit), run(attend, values, mask, jit=jit)
    assert np.isfinite(ours).all()
    np.testing.assert_allclose(ours[:, 1:], plain[:, 1:], rtol=0.1, atol={"float16": 0.05, "bfloat16": 0.4}[low])


@both
@compiled_or_not
def test_counts_and_identifiers_are_not_rounded(low: str, *, jit: bool) -> None:
    counts = np.array([[70_001, 3, 0, 2_049], [5, 257, 100_003, 1]], np.int32)
    weights = np.eye(4, dtype=np.float32)
    images = np.arange(8, dtype=np.uint8).reshape(2, 4)

    def step(counts: Any, images: Any) -> Any:
        product = tf.matmul(tf.cast(counts, tf.float32), weights)
        seen = tf.matmul(tf.cast(images, tf.float32), weights)  # of integers that 16 bits hold
        return tf.concat([product, seen], axis=0)

    np.testing.assert_array_equal(run(step, counts, images, low=low, jit=jit)[:2], counts)


@both
@compiled_or_not
def test_indices_computed_in_floats_point_at_the_right_row(low: str, *, jit: bool) -> None:
    table = np.arange(40_000, dtype=np.float32)
    values = np.random.default_rng(3).normal(size=(4, 4)).astype(np.float32)
    rows = np.array([20_001, 33_333, 4_097, 2_049], np.float32)

    def step(values: Any, rows: Any) -> Any:
        near = tf.matmul(values, values)
        places = tf.cast(tf.floor(rows[:, None] * 1.0), tf.int32)
        return tf.gather(table, places) + 0.0 * tf.matmul(near, near)

    np.testing.assert_array_equal(run(step, values, rows, low=low, jit=jit)[:, 0], rows)


@pytest.mark.parametrize(
    ("equation", "shapes", "sums"),
    [
        ("i,j->ij", [(5,), (6,)], False),
        ("bi,bj->bij", [(2, 5), (2, 6)], False),
        ("bij,bjk->bik", [(2, 5, 6), (2, 6, 7)], True),
        ("bij,bjk->bik", [(2, 5, 1), (2, 1, 7)], False),
        ("...ij,...jk->...ik", [(2, 3, 5, 1), (2, 3, 1, 7)], False),
        ("...ij,...jk->...ik", [(2, 3, 5, 4), (2, 3, 4, 7)], True),
        ("...i,...i->i", [(2, 3), (2, 3)], True),
        ("ij,jk->ik", [None, (6, 7)], True),
        ("ij,jk->ik", [(5, None), (6, 7)], True),
        ("ij->ji", [(5, 6)], False),
        ("ij->i", [(5, 6)], False),
    ],
)
def test_an_einsum_that_sums_over_nothing_is_no_matrix_product(equation: str, shapes: Any, sums: bool) -> None:  # noqa: FBT001 - a table
    from mixdown.tensorflow.reading.arithmetic import contracts  # noqa: PLC0415 - of this test only

    assert contracts(equation, shapes) is sums


def test_the_reasons_are_given() -> None:
    x = tf.ones((4, 4))

    @tf.function(autograph=False)
    def step(x: Any, ids: Any) -> Any:
        a = tf.matmul(x, x, name="a")
        mask = tf.multiply(a, -1e9, name="mask")
        angle = tf.sin(tf.multiply(a, 3.0, name="angle"))
        outer = tf.einsum("bi,bj->bij", x, x)
        number = tf.cast(ids, tf.float32, name="number")
        return tf.matmul(tf.nn.softmax(mask) + angle, x) + number + tf.reduce_sum(outer, -1)

    report = mixdown.explain(step, x, tf.ones((4, 4), tf.int32), policy=policy("float16"))
    assert "it reads the constant -1e+09, which float16 turns into -Inf" in report.why("mask")
    assert "(Sin) depends on every digit of its result" in report.why("angle")
    assert "it makes integers, which float16 rounds above 2048" in report.why("number")


@both
@compiled_or_not
def test_a_loss_near_zero_is_neither_negative_nor_large(low: str, *, jit: bool) -> None:
    """Readers of one value whose results meet again: one rounds it, and a compiler may let the other not."""
    labels = np.arange(64) % 10
    wanted = np.eye(10, dtype=np.float32)[labels]
    values = (41.1 * wanted + np.random.default_rng(4).normal(size=(64, 10)) / 10).astype(np.float32)

    def losses(values: Any) -> Any:
        logits = tf.matmul(values, 0.973 * tf.eye(10))
        largest = tf.reduce_max(logits, -1, keepdims=True)
        total = tf.math.log(tf.reduce_sum(tf.exp(logits - largest), -1))
        return tf.stack(
            [
                tf.reduce_mean(tf.reduce_logsumexp(logits, -1) - tf.gather(logits, labels, batch_dims=1)),
                tf.reduce_mean(largest[:, 0] + total - tf.reduce_sum(logits * wanted, -1)),
                tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)),
                -tf.reduce_mean(tf.reduce_sum(tf.nn.log_softmax(logits) * wanted, -1)),
            ]
        )

    found = run(losses, values, low=low, jit=jit)
    assert (np.abs(found) <= 1e-5).all(), found


def test_the_rotary_embedding_of_keras_hub_is_as_exact_as_under_keras_policy() -> None:
    hub = pytest.importorskip("keras_hub", reason="keras-hub is not installed (it is in the environment of `make zoo`)")
    values = np.random.default_rng(0).normal(size=(1, 4096, 64)).astype(np.float32)
    frequencies = (1.0 / 10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64)).astype(np.float64)
    angle = np.arange(4096.0)[:, None] * np.concatenate([frequencies, frequencies])
    first, second = np.split(values.astype(np.float64), 2, -1)
    want = values * np.cos(angle) + np.concatenate([-second, first], -1) * np.sin(angle)
    layers = (Identity, hub.layers.RotaryEmbedding, Identity)
    for low, jit in product(LOWS, (False, True)):
        ours, theirs = errors(layers, values, want, low, jit=jit)
        assert (ours <= 1.2 * theirs).all()


@pytest.mark.parametrize(("operation", "low_sum"), [(tf.divide, True), (tf.multiply, False)])
def test_a_sum_with_a_quotient_by_a_large_constant_is_16_bit_and_right_at_the_edge_of_the_range(
    operation: Callable[..., Any], *, low_sum: bool
) -> None:
    """As in the gradient of a mean over 131,072 numbers; a product with that constant is beyond float16."""
    edge = 60_000.0  # the largest float16 number is 65,504

    def step(values: Any, eye: Any) -> Any:
        made = tf.matmul(values, eye)
        added = tf.add_n([made, operation(made, tf.constant(131_072.0)), made / -2.0], name="added")
        return tf.matmul(tf.matmul(added, eye), eye) + tf.reduce_sum(tf.matmul(added, eye)) * 0.0

    values, eye = np.full((512, 512), edge, np.float32), np.eye(512, dtype=np.float32)
    compiled = tf.function(step, jit_compile=True, autograph=False)
    why = mixdown.explain(compiled, values, eye, policy=policy("float16")).why("added")
    assert ("float16" in why.splitlines()[0]) is low_sum, why
    if low_sum:
        np.testing.assert_allclose(run(step, values, eye, low="float16", jit=True), edge / 2, rtol=2**-10)


@pytest.mark.parametrize(
    ("build", "divides"),
    [
        (lambda x, c: x / c, True),
        (lambda x, c: c / x, False),
        (lambda x, c: x * c, False),
        (lambda x, c: x / c + c, False),
        (lambda x, c: tf.math.divide_no_nan(x, c) / c, True),
    ],
)
def test_a_constant_knows_whether_all_its_readers_divide_by_it(build: Callable[..., Any], *, divides: bool) -> None:
    def make() -> None:
        out(build(x(), tf.constant(131_072.0)))

    result = rewrite_graph_def(graph_of(make), ["out"], policy=policy("float16"))
    assert [tensor.constant.divides for tensor in result.plan.graph.tensors if tensor.constant] == [divides]
