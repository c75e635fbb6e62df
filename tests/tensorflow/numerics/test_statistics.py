"""`statistics` measures the tensors that become low, as NumPy would; what it saves comes back."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.numerics.numpy_counts import counted, told

import mixdown
from mixdown.errors import MixdownError
from mixdown.numerics.range_statistics import Statistics

ON_CPU = mixdown.Policy(devices="all")
RNG = np.random.default_rng(3)


def wide(*shape: int) -> Any:
    """Numbers of very different sizes."""
    return (RNG.standard_normal(shape) * 2.0 ** RNG.uniform(-30, 20, shape)).astype(np.float32)


def test_every_low_tensor_equals_a_numpy_recount() -> None:
    x, w = wide(64, 32), tf.Variable(wide(32, 16))

    @tf.function
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            product = tf.matmul(x, w, name="product")
            y = tf.nn.relu(product)
            loss = tf.reduce_sum(y * 1e-3)
        return product, y, tape.gradient(loss, x)

    product, y, gradient = step(tf.constant(x))
    found = mixdown.numerics.statistics(step, tf.constant(x), policy=ON_CPU)
    expected = {"x": x, "product": product, "Relu": y, "gradient_tape/product/MatMul": gradient}
    assert {each.op for each in found.tensors} >= expected.keys()
    for name, values in expected.items():
        assert told(found[name].tally) == counted(np.asarray(values))


def test_loops_are_counted_over_all_iterations_and_steps() -> None:
    w = tf.constant(np.eye(4, dtype=np.float32) * 2)

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < 5, lambda i, h: (i + 1, tf.matmul(h, w, name="inside")), (0, x))[1]

    x = wide(3, 4)
    found = mixdown.numerics.statistics(step, tf.constant(x), steps=3, policy=ON_CPU)
    every = np.concatenate([x * 2.0**n for n in range(1, 6)] * 3)
    assert told(found["while/inside"].tally) == counted(every)


def test_variables_move_between_steps_and_are_put_back() -> None:
    weight = tf.Variable(np.eye(2, dtype=np.float32))

    @tf.function
    def step() -> tf.Tensor:
        product = tf.matmul(weight, weight, name="product")
        weight.assign(weight * 2.0)
        return product

    found = mixdown.numerics.statistics(step, steps=3, policy=ON_CPU)
    assert found["product"].tally.max_abs == 16.0  # 1, then 4, then 16
    assert weight.numpy().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_only_what_becomes_low_is_measured() -> None:
    step = tf.function(lambda x: tf.exp(tf.matmul(x, x, name="low"), name="full"))
    found = mixdown.numerics.statistics(step, tf.eye(2), policy=ON_CPU)
    assert {each.op for each in found.tensors} == {"x", "low"}
    kept = mixdown.numerics.statistics(step, tf.eye(2), policy=ON_CPU.with_keep(name="."))
    assert kept.tensors == ()


def test_a_policy_in_force_does_not_touch_what_is_measured() -> None:
    step = tf.function(lambda x: tf.matmul(x, x, name="product"))
    with mixdown.rewriting(ON_CPU):
        found = mixdown.numerics.statistics(step, tf.fill([2, 2], 300.0))
    assert found["product"].tally.max_abs == 180000.0


def test_the_worst_tensors_come_first() -> None:
    step = tf.function(
        lambda a, b, c: [tf.matmul(each, each, name=f"of_{name}") for each, name in ((a, "a"), (b, "b"), (c, "c"))]
    )
    found = mixdown.numerics.statistics(step, tf.eye(2), tf.eye(2) * 1e4, tf.eye(2) * 1e-5, policy=ON_CPU)
    assert [each.op for each in found.tensors][:2] == ["of_b", "of_c"]


def keras_statistics() -> Statistics:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x, y = tf.random.normal([16, 8], seed=1), tf.random.normal([16, 2], seed=2)
    found = mixdown.numerics.statistics(lambda: model.train_on_batch(x, y), steps=2, policy=ON_CPU)
    assert isinstance(found, Statistics)
    return found


def test_saved_statistics_come_back_and_pages_show_every_tensor(tmp_path: Path) -> None:
    found = keras_statistics()
    text = found.save(tmp_path / "statistics.json").read_text("utf-8")
    assert Statistics.from_json(text) == found
    page = found.save(tmp_path / "statistics.html").read_text("utf-8")
    assert page.count("<svg") == len(found.tensors)
    assert all(each.name in page for each in found.tensors)
    assert "http" not in page.replace("http-equiv", "")
    assert found.save(tmp_path / "statistics.txt").read_text("utf-8") == str(found)


def test_names_of_ops_are_never_markup() -> None:
    found = keras_statistics()
    evil = Statistics("float16", 1, 1.0, (found.tensors[0].__class__("<script>", "K", 0, "", found.tensors[0].tally),))
    assert "<script>" not in evil.to_html()


def test_gradients_are_told_by_their_names_and_give_a_scale() -> None:
    found = keras_statistics()
    assert found.gradients
    assert found.scale is not None
    assert "Fixed loss scale" in str(found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mixdown.numerics.statistics(tf.function(lambda: 0.0), steps=0), "at least one step, got steps=0"),
        (lambda: Statistics.from_json("{"), "This is not a statistics file: it is not JSON"),
        (lambda: Statistics.from_json("[]"), "its schema is None, not 'mixdown-statistics/1'"),
        (lambda: Statistics("float16", 1, 1.0, ()).save("a.pdf"), r"saved as \.html, \.json or \.txt, not as 'a\.pdf'"),
    ],
)
def test_messages(call: Any, message: str) -> None:
    with pytest.raises(MixdownError, match=message):
        call()


def test_a_tensor_that_is_not_there_is_told() -> None:
    with pytest.raises(KeyError, match="No tensor is named 'nobody'"):
        keras_statistics()["nobody"]
