"""What only resembles the batch normalization of Keras 3, or must not change, stays as it is."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import ON_CPU
from tests.tensorflow.fusing.norm_models import IMAGES, layered, model, spelled_out, step

import mixdown
from mixdown.tensorflow.fusing.batch_norms import batch_norms
from mixdown.tensorflow.fusing.patterns import Wires
from mixdown.tensorflow.protos.bodies import graph_body

MASK = np.ones((8, 6), bool)


def merged(function: Any, policy: mixdown.Policy = ON_CPU, *args: Any) -> int:
    """How many normalizations would run as one op."""
    return len(mixdown.explain(function, *args, policy=policy).graphs[0].merged)


def inner(name: str) -> Callable[[Any, Any], Any]:
    """Return a value from within the normalization: the op of that kind which reads its input."""

    def after(_: Any, values: dict[str, Any]) -> Any:
        return next(op.outputs[0] for op in values["x"].consumers() if op.type == name)

    return after


def untrained() -> Any:
    net = model()
    return tf.function(lambda x: net(x, training=True), input_signature=[tf.TensorSpec(IMAGES.shape)])


def inferring() -> Any:
    net = model()
    net.get_layer("norm").trainable = False
    return step(net)


def masked() -> Any:
    dense, norm = keras.layers.Dense(4), keras.layers.BatchNormalization()

    @tf.function(input_signature=[tf.TensorSpec((8, 6, 3))])
    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(norm(dense(x), training=True, mask=MASK) ** 2)
        return tape.gradient(loss, dense.trainable_variables)

    return train


def twice_derived() -> Any:
    """The second derivative reads what the first one computed on the way."""
    weights = tf.Variable(tf.ones((3, 3, 3, 4)))

    @tf.function(input_signature=[tf.TensorSpec(IMAGES.shape)])
    def train(x: Any) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                y = tf.nn.conv2d(x, weights, 1, "SAME")
                y = tf.nn.batch_normalization(y, *tf.nn.moments(y, (0, 1, 2)), tf.zeros(4), tf.ones(4), 1e-3)
                loss = tf.reduce_sum(tf.nn.conv2d(y, tf.ones((3, 3, 4, 4)), 1, "SAME") ** 2)
            size = tf.reduce_sum(tape.gradient(loss, weights) ** 2)
        return outer.gradient(size, weights)

    return train


def placed(device: str, *, private: str = "") -> Any:
    """A step whose normalization has a device for a part, or a private attribute."""
    train = spelled_out().get_concrete_function()
    graph_def = train.graph.as_graph_def()
    for node in graph_def.node:
        if node.op == "Rsqrt":
            node.device = device
            if private:
                node.attr[private].b = True
    return graph_def


STEPS: dict[str, Callable[[], Any]] = {
    "no gradient is computed": untrained,
    "inference": inferring,
    "other axes": lambda: spelled_out(axes=(0, 1)),
    "channels first": lambda: step(model(axis=1)),
    "float64": lambda: spelled_out(dtype="float64"),
    "a scale for all channels": lambda: spelled_out(width=1),
    "a scale that depends on the mean": lambda: spelled_out(of_mean=0.5),
    "no offset": lambda: step(model(center=False)),
    "masked": masked,
    "the squares are returned": lambda: spelled_out(inner("SquaredDifference")),
    "the products are returned": lambda: spelled_out(inner("Mul")),
    "a second derivative": twice_derived,
    "layers, of an unknown batch": lambda: step(layered(), batch=None),
    "layers, over two axes": lambda: step(layered(axis=(1, 2))),
    "layers, over another axis": lambda: step(layered((16, 16), axis=1)),
    "layers, without a scale": lambda: step(layered(scale=False)),
    "layers, without an offset": lambda: step(layered(center=False)),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_is_not_exactly_the_pattern(name: str) -> None:
    assert merged(STEPS[name]()) == 0


def test_the_same_step_otherwise_is_found() -> None:
    assert merged(spelled_out()) == merged(step(model())) == merged(placed("")) == merged(step(layered())) == 1


@pytest.mark.parametrize(
    ("device", "private"), [("/device:CPU:1", ""), ("", "_XlaCompile"), ("", "_grappler_do_not_remove")]
)
def test_parts_that_ask_for_something(device: str, private: str) -> None:
    assert merged(placed(device, private=private)) == 0


POLICIES = {
    "TensorFlow's lists": mixdown.Policy(rules="tf-2.21", devices="all"),
    "TensorFlow's procedure": mixdown.Policy(strategy="grappler", devices="all"),
    "a kept layer": ON_CPU.with_keep(layer="norm"),
    "a kept name": ON_CPU.with_keep(name="batchnorm/Rsqrt"),
    "a kept kind": ON_CPU.with_deny("SquaredDifference"),
    "a kept op": ON_CPU.with_keep("FusedBatchNormV3", "FusedBatchNormGradV3"),
    "infer ops are denied": mixdown.Policy(devices="all", level="treat_infer_as_deny"),
    "only products": mixdown.Policy(devices="all", level="tensor_cores_only"),
    "another device": mixdown.Policy(devices="gpu"),
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.filterwarnings("ignore:.*runs in float32.*")
def test_what_a_policy_does_not_want(name: str) -> None:
    assert merged(step(model()), POLICIES[name]) == 0


def test_only_what_may_be_low_on_its_device_is_one_op() -> None:
    layers = [layer for _ in range(2) for layer in (keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization())]
    net = keras.Sequential([keras.Input(IMAGES.shape[1:]), *layers, keras.layers.Conv2D(4, 3)])
    graph_def = step(net).get_concrete_function().graph.as_graph_def()
    assert merged(graph_def) == 2
    for name in next(batch_norms(Wires(graph_body(graph_def)))).nodes.values():
        (node,) = (node for node in graph_def.node if node.name == name)
        node.device = "/device:GPU:0"
    assert merged(graph_def, mixdown.Policy(devices="cpu")) == 1


def test_rules_for_other_layers_change_nothing() -> None:
    assert merged(step(model()), ON_CPU.with_keep("Tanh")) == 1
    assert merged(step(model()), mixdown.Policy(devices="all", strategy="tuned")) == 1
