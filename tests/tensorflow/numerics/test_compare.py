"""`compare`: zero where nothing is low, NumPy's numbers where something is, and the blame where it belongs."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown.errors import MixdownError
from mixdown.numerics.comparison import Comparison

ON_CPU = mixdown.Policy(devices="all")
NOTHING_LOW = ON_CPU.with_keep(name=".")
RNG = np.random.default_rng(11)


def trained_model(*layers: Any) -> Any:
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input([8, 8, 2]), *layers, keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    x, y = RNG.standard_normal((4, 8, 8, 2), "float32"), RNG.standard_normal((4, 3), "float32")
    model.train_on_batch(x, y)
    return lambda: model.train_on_batch(x, y)


def test_everything_kept_full_is_identical_bit_for_bit() -> None:
    step = trained_model(
        keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(4, activation="gelu"),
    )
    compared = mixdown.numerics.compare(step, policy=NOTHING_LOW)
    assert compared.identical
    assert len(compared.tensors) > 100
    assert len(compared.outputs) == 1
    assert str(compared).startswith("No difference in 1 outputs and ")


@pytest.mark.parametrize("draw", ["legacy", "generator", "stateless"])
def test_both_runs_draw_the_same_random_numbers(draw: str) -> None:
    generator = tf.random.Generator.from_seed(5)
    draws = {
        "legacy": lambda: tf.random.normal([64, 64]),
        "generator": lambda: generator.normal([64, 64]),
        "stateless": lambda: tf.random.stateless_normal([64, 64], [1, 2]),
    }
    step = tf.function(lambda: tf.matmul(draws[draw](), tf.eye(64)) * 1.0)
    for _ in range(2):
        assert mixdown.numerics.compare(step, policy=NOTHING_LOW).identical
    mixed = mixdown.numerics.compare(step, policy=ON_CPU).outputs[0].errors
    assert 0 < mixed.relative < 1e-3


def test_errors_are_those_of_numpy() -> None:
    x = RNG.standard_normal((32, 16), "float32")
    w = RNG.standard_normal((16, 8), "float32")
    step = tf.function(lambda x: tf.matmul(x, w, name="product"))
    full = step(tf.constant(x)).numpy().astype(np.float64)
    with mixdown.rewriting(ON_CPU):
        mixed = step(tf.constant(x)).numpy().astype(np.float64)
    errors = mixdown.numerics.compare(step, tf.constant(x), policy=ON_CPU)["product"].errors
    difference = np.abs(mixed - full)
    assert errors.max_abs == difference.max()
    assert errors.mean_abs == pytest.approx(difference.mean(), rel=1e-12)
    relative = difference / np.maximum(np.abs(full), 1e-6 * np.abs(full).max())
    assert errors.max_rel == pytest.approx(relative.max(), rel=1e-12)
    assert errors.mean_rel == pytest.approx(relative.mean(), rel=1e-12)
    assert errors.relative == pytest.approx(np.linalg.norm(difference) / np.linalg.norm(full), rel=1e-12)
    cosine = (full * mixed).sum() / np.linalg.norm(full) / np.linalg.norm(mixed)
    assert errors.cosine == pytest.approx(cosine, rel=1e-12)


def test_the_op_that_loses_the_digits_comes_first_and_those_after_it_add_nothing() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        near = tf.matmul(x, tf.eye(4) * 1.0009765, name="coarse") - x  # all that is left is what rounding took
        return tf.matmul(near, tf.eye(4), name="after")

    x = tf.constant(RNG.uniform(1.0, 2.0, (4, 4)).astype(np.float32))
    compared = mixdown.numerics.compare(step, x, policy=ON_CPU.with_keep("Sub"))
    assert compared.tensors[0].op == "sub"  # where a small error becomes a large one
    assert compared["after"].added < compared["sub"].added / 100
    assert compared["after"].errors.relative > 0.1


def test_loops_are_compared_iteration_by_iteration() -> None:
    w = tf.constant(RNG.standard_normal((4, 4), "float32") / 2)
    step = tf.function(
        lambda x: tf.while_loop(lambda i, _: i < 5, lambda i, h: (i + 1, tf.matmul(h, w, name="inside")), (0, x))[1]
    )
    compared = mixdown.numerics.compare(step, tf.ones([2, 4]), policy=ON_CPU)
    assert compared["while/inside"].dtype == "float16"
    assert 0 < compared["while/inside"].errors.relative < 0.01


def test_the_gradients_are_those_the_optimizer_gets() -> None:
    v, w = tf.Variable(tf.eye(4)), tf.Variable(tf.eye(4))

    @tf.function
    def step(x: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            twice = tf.matmul(tf.nn.relu(tf.matmul(x, v)), v)  # its two gradients are summed before they leave
            loss = tf.reduce_sum(tf.matmul(twice, w, name="once") ** 2)
        for variable, gradient in zip((v, w), tape.gradient(loss, (v, w)), strict=True):
            variable.assign_sub(0.1 * gradient)

    x = tf.constant(RNG.standard_normal((3, 4), "float32"))
    compared = mixdown.numerics.compare(step, x, policy=ON_CPU)
    assert {each.op for each in compared.gradients} == {"AddN", "gradient_tape/once/MatMul_1"}
    np.testing.assert_array_equal(v.numpy(), np.eye(4))


def test_an_overflow_is_an_infinite_error() -> None:
    step = tf.function(lambda x: tf.matmul(x, x, name="planted"))
    compared = mixdown.numerics.compare(step, tf.fill([2, 2], 300.0), policy=ON_CPU)
    assert compared["planted"].errors.relative == np.inf


def test_only_what_was_asked_for_is_compared() -> None:
    step = tf.function(lambda x: tf.matmul(tf.matmul(x, x, name="one"), x, name="two"))
    compared = mixdown.numerics.compare(step, tf.eye(2), policy=ON_CPU, only="^two$")
    assert [each.op for each in compared.tensors] == ["two"]


def test_a_saved_comparison_comes_back() -> None:
    compared = mixdown.numerics.compare(trained_model(), policy=ON_CPU)
    assert not compared.identical
    assert Comparison.from_json(compared.to_json()) == compared
    assert "Ops, by the error they add:" in str(compared)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "This is not a comparison: it is not JSON"), ("{}", "its schema is None, not 'mixdown-comparison/1'")],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(MixdownError, match=message):
        Comparison.from_json(text)


def test_a_tensor_that_is_not_there_is_told() -> None:
    with pytest.raises(KeyError, match="No tensor is named 'nobody'"):
        Comparison(())["nobody"]
