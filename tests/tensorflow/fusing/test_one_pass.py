"""Compiled functions compute a variance in one pass over the values with the mean, as exact as in two."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import BFLOAT16, ON_CPU, arrays, executed
from tests.tensorflow.fusing.norm_models import IMAGES, layered, model, moving, spelled_out, step

import mixdown

PASSES = "Variances computed in one pass over the values with their means: "
SHAPE = (64, 8, 8, 4)


def moments(axes: tuple[int, ...] = (0, 1, 2), **options: Any) -> Any:
    """A compiled function that returns mean and variance of what it is given, beside a product."""

    @tf.function(jit_compile=True)
    def function(x: Any) -> Any:
        mean, variance = tf.nn.moments(x, axes, **options)
        return mean, variance, tf.linalg.matmul(x, x, transpose_b=True)

    return function


def planned(function: Any, *args: Any, policy: mixdown.Policy = ON_CPU) -> int:
    """How many variances are computed in one pass."""
    return len(mixdown.explain(function, *args, policy=policy).graphs[0].merged)


def shifted(by: float) -> Any:
    return np.random.default_rng(2).normal(by, 1.0, SHAPE).astype("float32")


def extreme() -> Any:
    """The first value of each channel is the only one that differs."""
    values = np.ones(SHAPE, "float32")
    values[0, 0, 0] = 1000.0
    return values


def black() -> Any:
    """What convolutions make of black images with a few bright spots: corners, where padding is seen, differ."""
    images = np.zeros((64, 8, 8, 3), "float32")
    images[::7, 3:5, 4] = 1.0
    kernel = np.random.default_rng(4).normal(size=(3, 3, 3, 4))
    return tf.nn.conv2d(images + 0.1, kernel, 1, "SAME").numpy()


VALUES: dict[str, Callable[[], Any]] = {
    "around 0": lambda: shifted(0.0),
    "around 1000": lambda: shifted(1000.0),
    "tiny": lambda: 1e-18 * shifted(1.0),
    "large": lambda: 1e15 * shifted(1.0),
    "black images": black,
    "first is extreme": extreme,
}


@pytest.mark.parametrize("name", VALUES)
def test_a_variance_is_as_exact_as_in_two_passes(name: str) -> None:
    """The error of a sum, 1e-5 on this device, counts 4,096 times where only the first of so many values differs."""
    values, function = VALUES[name](), moments()
    exact = values.astype("float64").var((0, 1, 2))
    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: function(values))
    assert not ran.dtypes("SquaredDifference")
    assert ran.dtypes("Square") == ["float32"] * 2  # of the values, and of their mean
    relative = 0.1 if name == "first is extreme" else 1e-4
    np.testing.assert_allclose(ran.value[1].numpy(), exact, rtol=relative, atol=float(np.finfo("float32").tiny))
    mean = values.astype("float64").mean((0, 1, 2))
    np.testing.assert_allclose(ran.value[0].numpy(), mean, atol=1e-5 * np.abs(values).max())


def test_equal_values_have_no_variance_less_than_0() -> None:
    values, function = np.full(SHAPE, 12345.678, "float32"), moments()
    with mixdown.rewriting(ON_CPU):
        assert (function(values)[1].numpy() >= 0.0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, -1])
def test_what_is_not_finite_shows(bad: float, place: int) -> None:
    values, function = shifted(0.0), moments()
    values[place, place, place, 1] = bad
    with mixdown.rewriting(ON_CPU):
        variance = function(values)[1].numpy()
    np.testing.assert_array_equal(np.isfinite(variance), [True, False, True, True])


@pytest.mark.parametrize("batch", [8, None], ids=["known", "unknown"])
@pytest.mark.parametrize("policy", [ON_CPU, BFLOAT16], ids=lambda policy: policy.low)
def test_a_step_is_as_near_to_float32_as_with_two_passes(policy: mixdown.Policy, batch: int | None) -> None:
    net = model()
    train, found = step(net, batch=batch, jit_compile=True), []
    for each in (policy, policy.with_keep("SquaredDifference")):  # a rule for a part of it keeps it as it is
        with mixdown.rewriting(each):
            ran = executed(lambda: train(IMAGES))
        found.append([*arrays(ran.value), *moving(net)])
        assert len(ran.dtypes("SquaredDifference")) == (each is not policy)
        assert not ran.dtypes("FusedBatchNormV3")
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0.01, atol=0.01 * np.abs(other).max())


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (moments(), 1),
        (moments((1, 2)), 1),
        (moments((0,)), 1),
        (moments((3,)), 0),
        (moments((-1,)), 0),
        (moments(keepdims=True), 1),
    ],
    ids=["channels", "examples", "rows", "last", "last, negative", "kept"],
)
def test_which_dimensions_gain(function: Any, count: int) -> None:
    values = shifted(3.0)
    assert planned(function, values) == count
    expected = function(values)
    with mixdown.rewriting(ON_CPU):
        found = function(values)
    for one, other in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_group_normalization_is_right() -> None:
    keras.utils.set_random_seed(1)
    image = keras.Input(IMAGES.shape[1:])
    hidden = keras.layers.GroupNormalization(2)(keras.layers.Conv2D(4, 3)(image))
    net = keras.Model(image, keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(hidden)))
    train = step(net, jit_compile=True)
    assert planned(train) == 1
    expected = arrays(train(IMAGES))
    with mixdown.rewriting(ON_CPU):
        found = arrays(train(IMAGES))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=0.02 * np.abs(other).max())


def with_wrong(what: str) -> Any:
    """A function whose squares, or what is made of them, are not quite those of a variance."""

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec(SHAPE)])
    def function(x: Any) -> Any:
        mean = tf.reduce_mean(x, (0, 1) if what == "other axes" else (0, 1, 2), keepdims=True)
        given = x + 1.0 if what == "other values" else x
        squares = tf.math.squared_difference(given, mean)
        variance = tf.reduce_mean(squares, (0, 1, 2), keepdims=what != "no dimensions kept")
        more = squares if what == "squares returned" else tf.reduce_sum(squares) if what == "squares read" else x
        return variance, more, tf.linalg.matmul(x, x, transpose_b=True)

    return function


@pytest.mark.parametrize(
    "what", ["other axes", "other values", "no dimensions kept", "squares returned", "squares read"]
)
def test_what_only_resembles_a_variance_stays_as_it_is(what: str) -> None:
    assert planned(with_wrong("nothing")) == 1
    assert planned(with_wrong(what)) == 0


@pytest.mark.parametrize(
    "function",
    [step(layered(), jit_compile=True), tf.function(lambda x: tf.nn.moments(x, (0, 1, 2)), jit_compile=True)],
    ids=["layer normalization", "nothing is 16-bit"],
)
def test_what_gains_nothing_stays_as_it_is(function: Any) -> None:
    assert planned(function, *([] if function.input_signature else [IMAGES])) == 0


@pytest.mark.parametrize("rules", ["tf-2.21", "tf-2.19"])
def test_rules_of_a_release_keep_it_as_it_is(rules: str) -> None:
    assert planned(moments(), shifted(0.0), policy=mixdown.Policy(devices="all", rules=rules)) == 0


def test_a_report_says_so() -> None:
    report = mixdown.explain(step(model(), jit_compile=True), policy=ON_CPU)
    (row,) = report.graphs[0].merged
    assert f"{PASSES}1." in str(report)
    gone = row.parts[0]
    assert gone.endswith("moments/SquaredDifference")
    assert report.why(gone).startswith(f"{gone} is not run: ")
    assert report.from_json(report.to_json()).why(gone) == report.why(gone)


def test_tools_see_the_variance_under_its_name() -> None:
    compared = mixdown.numerics.compare(step(model(), jit_compile=True), IMAGES, policy=ON_CPU)
    (row,) = (row for row in compared.tensors if row.name.endswith("moments/variance:0"))
    assert row.errors.relative < 0.01


def test_offline_rewriting_does_it_too() -> None:
    @tf.function(input_signature=[tf.TensorSpec(IMAGES.shape)])
    def outer(x: Any) -> Any:
        return inner(x)[1]

    inner = tf.function(spelled_out().python_function, jit_compile=True)
    graph_def = outer.get_concrete_function().graph.as_graph_def()
    fetches = [node.name for node in graph_def.node if node.name.startswith("Identity")]
    rewrite = mixdown.rewrite_graph_def(graph_def, fetches, policy=ON_CPU)
    kinds = [node.op for function in rewrite.graph_def.library.function for node in function.node_def]
    assert (kinds.count("SquaredDifference"), kinds.count("Square")) == (0, 2)
