"""What is explained is what is applied: every twin that a call registers, byte for byte, names included."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.context import context

import mixdown
from mixdown.reports.build import graph_report
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.explaining.subjects import planned_graphs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

keras = tf.keras
EVERYWHERE = mixdown.Policy(devices="all")
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
IMAGES = np.linspace(-1, 1, 2 * 8 * 8 * 3, dtype=np.float32).reshape(2, 8, 8, 3)
LABELS = np.array([0, 1], np.int32)

Model = tuple["Callable[..., Any]", "Sequence[Any]"]


def products() -> Model:
    weights = tf.Variable(X)
    return tf.function(lambda x: tf.nn.softmax(tf.nn.relu(x @ weights) @ weights)), [X]


def attention() -> Model:
    def attend(x: Any) -> Any:
        scores = tf.nn.softmax(tf.einsum("ab,cb->ac", x, x))
        return tf.einsum("ac,cb->ab", scores, x) + tf.exp(x)

    return tf.function(attend), [tf.constant(X)]


def loop() -> Model:
    def go(x: Any) -> Any:
        for _ in tf.range(3):
            x = tf.nn.tanh(x @ x)
        return x

    return tf.function(go), [X]


def branch() -> Model:
    def choose(x: Any) -> Any:
        return tf.matmul(x, x) if tf.reduce_sum(x) > 0 else tf.nn.softmax(tf.matmul(x, x))

    return tf.function(choose), [X]


def calls() -> Model:
    inner = tf.function(lambda x: tf.nn.relu(x @ x))
    return tf.function(lambda x: inner(inner(x)) @ x), [X]


def compiled() -> Model:
    return tf.function(lambda x: tf.nn.relu(x @ x) @ x, jit_compile=True), [X]


def lookup() -> Model:
    table = tf.Variable(X)

    def step(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, ids) @ tf.transpose(table))
        return tf.convert_to_tensor(tape.gradient(loss, table))

    return tf.function(step), [np.array([1, 5], np.int32)]


def convolutions() -> Model:
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 3)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(2),
        ]
    )
    return tf.function(lambda x: model(x, training=True)), [IMAGES]


def training() -> Model:
    model = keras.Sequential([keras.layers.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(2)])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = keras.losses.sparse_categorical_crossentropy(y, model(x), from_logits=True)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return tf.function(step), [IMAGES, LABELS]


def recurrent() -> Model:
    tf_keras = pytest.importorskip("tf_keras")
    model = tf_keras.Sequential([tf_keras.layers.Input((8, 8)), tf_keras.layers.LSTM(4), tf_keras.layers.Dense(2)])
    return tf.function(model), [IMAGES[..., 0]]


MODELS = (products, attention, loop, branch, calls, compiled, lookup, convolutions, training, recurrent)


def serialized(proto: Any) -> bytes:
    return bytes(proto.SerializeToString(deterministic=True))


def registered(name: str) -> bytes:
    return serialized(context().get_function_def(name))


@pytest.mark.parametrize("policy", [EVERYWHERE, mixdown.Policy(low="bfloat16", strategy="grappler", devices="all")])
@pytest.mark.parametrize("model", MODELS)
def test_what_is_planned_equals_what_a_call_registers(model: Callable[[], Model], policy: mixdown.Policy) -> None:
    function, args = model()
    (planned,) = planned_graphs(function, policy, args)
    names = [proto.signature.name for proto in planned.protos]
    assert names
    assert not any(context().has_function(name) for name in names)  # nothing was registered yet
    with mixdown.rewriting(policy):
        function(*args)
    assert [registered(name) for name in names] == [serialized(proto) for proto in planned.protos]
    twin = next(twin for twin in active_policy.twins_for(policy).known.values() if twin.name.decode() == names[0])
    assert set(twin.originals) == set(names)  # and no other was
    assert twin.plan is not None
    (explained,) = mixdown.explain(function, *args, policy=policy).graphs
    applied = graph_report(twin.plan, explained.name, explained.kind)
    assert [row.sites for row in explained.ops] == [row.sites for row in applied.ops]
    assert explained.casts == applied.casts


def test_names_of_twins_depend_on_the_policy() -> None:
    function, args = products()
    policies = (EVERYWHERE, EVERYWHERE.with_keep("Relu"), mixdown.Policy(low="bfloat16", devices="all"))
    planned = [planned_graphs(function, policy, args)[0] for policy in policies]
    assert len({each.protos[0].signature.name for each in planned}) == len(policies)


def test_the_planned_step_of_fit_equals_what_fit_registers() -> None:
    # fit traces a function of its own: the numbers that TensorFlow puts into names differ, and digests made of them.
    model = keras.Sequential([keras.layers.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(2)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    batch = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(2)
    (planned,) = planned_graphs(model, EVERYWHERE, [batch])
    twins = active_policy.twins_for(EVERYWHERE)
    earlier = {name for name, _, _ in twins.made()}
    with mixdown.rewriting(EVERYWHERE):
        model.fit(batch, shuffle=False, verbose=0)
    made = [(name, twin) for name, _, twin in twins.made() if name not in earlier]
    (twin,) = [twin for name, twin in made if "on_iterator" in name and twin.originals]
    applied = [context().get_function_def(name) for name in twin.originals]
    assert [unnumbered(proto) for proto in planned.protos] == [unnumbered(proto) for proto in applied]


def unnumbered(proto: Any) -> str:
    """A function without the numbers that differ from trace to trace."""
    text = re.sub(r"(__(?:inference|forward|backward)_\w+?)_\d+(__float16_[0-9a-f]{16})?\b", r"\1", str(proto))
    return re.sub(r"((?:PartitionedCall|CustomGradient)-|_user_specified_name\"\s+value \{\s+s: \")\d+", r"\1", text)


def test_a_planned_graph_is_what_is_written() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [8, 8], name="x")
        tf.nn.softmax(tf.matmul(x, x) @ x, name="y")
    graph_def = graph.as_graph_def(add_shapes=True)
    (planned,) = planned_graphs(graph_def, EVERYWHERE)
    written = mixdown.rewrite_graph_def(graph_def, ["y"], policy=EVERYWHERE).graph_def
    assert [serialized(proto) for proto in planned.protos] == [serialized(written)]


def test_nothing_is_made_of_what_cannot_be_low() -> None:
    (planned,) = planned_graphs(tf.function(tf.exp), EVERYWHERE, [X])
    assert list(planned.protos) == []
    assert not mixdown.explain(tf.function(tf.exp), X, policy=EVERYWHERE).graphs[0].rewritten
