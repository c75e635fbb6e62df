"""Signatures, traces, variables, structures: however a tf.function is made and called, its twin runs in its place."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

# Private: the functions that TensorFlow has registered. Checked on 2.16 to 2.21.
from tensorflow.python.eager import context as eager_context
from tests.tensorflow.calls.twins_probe import BFLOAT16, ON_CPU, arrays, compared, executed

import mixdown
from mixdown.tensorflow.calls import active_policy

X = tf.constant([[1.0, 2.0], [3.0, 4.0]])
W = tf.constant([[0.5, 0.25], [0.125, 1.0]])


def test_bfloat16_rounds_where_float32_does_not() -> None:
    function = tf.function(lambda x: tf.matmul(x, x))
    fine = tf.constant([[1.0 + 2.0**-9]])
    with mixdown.rewriting(BFLOAT16):
        ran = executed(lambda: function(fine))
    assert ran.all_low("MatMul", low="bfloat16")
    assert ran.value.numpy().item() == 1.0


def test_a_denied_op_and_what_follows_stay_full() -> None:
    function = tf.function(lambda x: tf.matmul(tf.nn.softmax(tf.nn.relu(tf.matmul(x, W))) * 2.0, W))
    ran = compared(lambda: function(X))
    assert ran.dtypes("MatMul") == ["float16", "float16"]
    assert ran.all_full("Softmax", "Mul")


def test_functions_nested_three_deep_are_low_through_their_signatures() -> None:
    innermost = tf.function(lambda x: tf.nn.relu(tf.matmul(x, W)))
    middle = tf.function(lambda x: innermost(innermost(x)))
    outer = tf.function(lambda x: tf.matmul(middle(x), W))
    ran = compared(lambda: outer(X))
    assert ran.dtypes("MatMul") == ["float16"] * 3
    assert ran.dtypes("Relu") == ["float16"] * 2
    assert ran.dtypes("Cast").count("float32") == 1  # only the last result is widened again


def test_one_function_called_in_two_places_gets_one_twin() -> None:
    inner = tf.function(lambda x: tf.matmul(x, W))
    outer = tf.function(lambda x: (inner(x), inner(tf.exp(x))))
    ran = compared(lambda: outer(X), tolerance=0.1)
    assert ran.dtypes("MatMul") == ["float16", "float16"]


def test_each_trace_of_a_function_gets_its_own_twin() -> None:
    function = tf.function(lambda x: tf.matmul(x, tf.transpose(x)))
    for x in (tf.ones((rows, 2)) for rows in (1, 2, 3)):
        assert compared(partial(function, x)).all_low("MatMul")
    assert function.experimental_get_tracing_count() == 3


def test_rewriting_does_not_retrace() -> None:
    function = tf.function(lambda x: tf.matmul(x, x))
    compared(lambda: function(X))
    assert function.experimental_get_tracing_count() == 1


def test_variables_created_on_the_first_call() -> None:
    class Lazy(tf.Module):
        weight: Any = None

        @tf.function
        def __call__(self, x: Any) -> Any:
            if self.weight is None:
                self.weight = tf.Variable(tf.random.stateless_uniform((2, 2), (1, 2)))
            return tf.matmul(x, self.weight)

    module = Lazy()
    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: module(X))
    assert ran.all_low("MatMul")
    np.testing.assert_array_equal(module.weight, tf.random.stateless_uniform((2, 2), (1, 2)))  # initialised in float32


def test_arguments_and_results_keep_their_structure_and_dtype() -> None:
    @tf.function
    def function(x: Any, y: Any = None, *, scale: Any) -> Any:
        product = tf.matmul(x["a"], y)
        return {
            "p": product * scale,
            "same": x["a"],
            "twice": (product, product),
            "none": None,
            "count": tf.size(x["a"]),
        }

    call = lambda: function({"a": X}, W, scale=tf.constant(2.0))  # noqa: E731 - called three times
    ran = compared(call)
    assert ran.all_low("MatMul")
    tf.nest.assert_same_structure(ran.value, call())
    assert [part.dtype for part in arrays(ran.value)] == [part.dtype for part in arrays(call())]


def test_an_embedding_table_is_gathered_in_full_and_its_gradient_stays_sparse() -> None:
    table = tf.Variable(tf.reshape(tf.range(20.0), (10, 2)))

    @tf.function
    def gradient(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(tf.gather(table, ids), W))
        return tape.gradient(loss, table)

    ids = tf.constant([1, 3, 3])
    ran = compared(lambda: (gradient(ids).values, gradient(ids).indices))
    assert ran.all_low("MatMul")
    assert isinstance(gradient(ids), tf.IndexedSlices)


def test_ragged_arguments_and_results() -> None:
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0]])
    function = tf.function(lambda r: (tf.matmul(r.to_tensor(), W), tf.map_fn(lambda row: row * 2.0, r)))
    ran = compared(
        lambda: [part for each in function(ragged) for part in tf.nest.flatten(each, expand_composites=True)]
    )
    assert ran.all_low("MatMul")


def test_python_functions_get_float32_and_give_it() -> None:
    seen = []

    def look(value: Any) -> Any:
        seen.append(value.dtype)
        return value

    function = tf.function(
        lambda x: tf.matmul(tf.ensure_shape(tf.py_function(look, [tf.matmul(x, W)], tf.float32), (2, 2)), W)
    )
    ran = compared(lambda: function(X))
    assert ran.dtypes("MatMul") == ["float16", "float16"]
    assert set(seen) == {tf.float32}


def test_a_loaded_model_and_the_gradient_through_it(tmp_path: Path) -> None:
    module = tf.Module()
    module.weight = tf.Variable(W)
    module.call = tf.function(
        lambda x: tf.reduce_sum(tf.matmul(tf.nn.relu(tf.matmul(x, module.weight)), module.weight)),
        input_signature=[tf.TensorSpec([None, 2])],
    )
    tf.saved_model.save(module, tmp_path, signatures=module.call)
    loaded = tf.saved_model.load(tmp_path)

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = loaded.call(X)
        return tape.gradient(loss, loaded.weight)

    ran = compared(gradient)
    assert ran.all_low("MatMul", "Relu")
    ran = compared(lambda: loaded.signatures["serving_default"](X))
    assert ran.all_low("MatMul", "Relu")


def test_a_function_may_refer_to_itself_and_to_another_that_refers_to_it() -> None:
    @tf.function
    def power(x: Any, times: int) -> Any:
        return tf.matmul(other(x, times - 1), W) if times else x

    @tf.function
    def other(x: Any, times: int) -> Any:
        return tf.nn.relu(power(x, times))

    ran = compared(lambda: power(X, 3))
    assert ran.dtypes("MatMul") == ["float16"] * 3


def test_functions_that_call_each_other_in_a_circle_are_followed_once() -> None:
    """TensorFlow's Python cannot trace a true circle, but a function library may hold one."""
    context = eager_context.context()
    stop = tf.function(lambda x: x)
    go_on = tf.function(lambda x: stop(tf.matmul(x, x)))
    traced = go_on.get_concrete_function(tf.TensorSpec([1, 1]))
    circle = copied(context, traced.name, "circle_back")
    for node in circle.node_def:
        if node.op == "PartitionedCall":
            node.attr["f"].func.name = "circle"
    forth = copied(context, traced.name, "circle")
    for node in forth.node_def:
        if node.op == "PartitionedCall":
            node.attr["f"].func.name = "circle_back"
    for function in (circle, forth):
        context.add_function_def(function)
    twin = active_policy.twins_for(ON_CPU).of(context, b"circle", "")
    assert sorted(twin.originals.values()) == ["circle", "circle_back"]
    for name in twin.originals:
        called = [node.attr["f"].func.name for node in context.get_function_def(name).node_def if "f" in node.attr]
        assert set(called) == set(twin.originals) - {name}
    for name in ("circle", "circle_back"):
        context.remove_function(name)


def copied(context: Any, name: Any, new: str) -> Any:
    original = context.get_function_def(name)
    copy = type(original)()
    copy.CopyFrom(original)
    copy.signature.name = new
    return copy
