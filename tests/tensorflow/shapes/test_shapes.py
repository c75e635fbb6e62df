"""Shapes of values: as TensorFlow itself infers them, through calls and variables, and only when asked for.

What the shape functions of this room say of single kinds is in `test_shape_functions`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from mixdown.core import Policy, make_plan
from mixdown.tensorflow.calls.twins import Registered
from mixdown.tensorflow.protos.bodies import function_body, graph_body
from mixdown.tensorflow.protos.c_graph import CGraph
from mixdown.tensorflow.reading.read import read
from mixdown.tensorflow.shapes.variable_handles import handles_of_inputs

CPU = Policy(devices=("CPU",))


def shapes_of(reading: Any) -> dict[str, Any]:
    graph = reading.graph
    return {
        f"{graph.ops[graph.sites[tensor.site].op].function}/{tensor.name}": shape
        for tensor, shape in zip(graph.tensors, graph.shapes, strict=True)
    }


@pytest.mark.parametrize("add_shapes", [True, False])
def test_a_graph_has_the_shapes_that_tensorflow_infers(add_shapes: bool) -> None:  # noqa: FBT001 - a parameter
    with tf.Graph().as_default() as graph:
        value = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
        product = tf.matmul(value, tf.ones([2, 3]), name="m")
        turned = tf.transpose(product, name="t")
        tf.nn.relu(tf.concat([turned, turned], 0), name="r")
        tf.nn.relu(tf.compat.v1.placeholder(tf.float32, name="unknown"))
    found = shapes_of(read(graph_body(graph.as_graph_def(add_shapes=add_shapes)), {}, CPU))
    assert found["/x:0"] == (None, 2)
    assert found["/m:0"] == (None, 3)
    assert found["/t:0"] == (3, None)
    assert found["/unknown:0"] is None


def traced(function: Any, *arguments: Any) -> dict[str, Any]:
    """The shapes in a function and in all it calls, as they are found where it is called."""
    concrete = tf.function(function).get_concrete_function(*arguments)
    library = Registered(context.context())
    handles = handles_of_inputs([*concrete.inputs[: len(arguments)], *concrete.captured_inputs])
    return shapes_of(read(function_body(library[concrete.name.decode()]), library, CPU, handles=handles))


def test_a_function_knows_the_variables_that_it_captures_and_hands_on() -> None:
    weights = tf.Variable(np.ones((4, 5), np.float32))
    inner = tf.function(lambda x: tf.nn.relu(tf.matmul(x, weights)))

    def outer(x: tf.Tensor) -> tf.Tensor:
        return tf.transpose(inner(x)) + 1.0

    found = list(traced(outer, tf.ones((3, 4))).items())
    in_call = [shape for name, shape in found if "MatMul:0" in name]
    after_call = [shape for name, shape in found if "transpose:0" in name]
    assert in_call == [(3, 5)]
    assert after_call == [(5, 3)]


def test_shapes_inside_a_branch_and_a_loop_are_known() -> None:
    def outer(x: tf.Tensor) -> tf.Tensor:
        _, looped = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(y)), (0, x))
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(looped), lambda: looped * 2.0)

    found = traced(outer, tf.ones((3, 4)))
    inside = [shape for name, shape in found.items() if "/Tanh:0" in name or "/Relu:0" in name]
    assert inside
    assert set(inside) == {(3, 4)}


def test_a_graph_that_cannot_be_imported_alone_has_no_shapes_and_no_error() -> None:
    with tf.Graph().as_default() as graph:
        tf.nn.relu(tf.compat.v1.placeholder(tf.float32, [2], name="x"), name="r")
    broken = graph.as_graph_def()
    broken.node[0].attr["shape"].shape.dim[0].size = -7
    found = shapes_of(read(graph_body(broken), {}, CPU))
    assert found["/x:0"] is None


def branched() -> Any:
    """Two products that share an input, with control edges between their branches, and an unknown shape.

    Behind them are ops whose shapes only TensorFlow knows.
    """
    with tf.Graph().as_default() as graph:
        value = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
        left = tf.linalg.band_part(tf.matmul(value, tf.ones([2, 3])), 1, 1, name="left")
        tf.identity(left)
        with tf.control_dependencies([left]):
            right = tf.linalg.band_part(tf.matmul(value, tf.ones([2, 5])), 1, 1, name="right")
        tf.identity(tf.linalg.band_part(right, 0, 1, name="after"))
    return graph.as_graph_def()


def imports(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The nodes of every graph that TensorFlow is asked to infer the shapes of, from now on."""
    found: list[set[str]] = []
    add = CGraph.add

    def noting(graph: CGraph, graph_def: Any) -> None:
        found.append({node.name for node in graph_def.node})
        add(graph, graph_def)

    monkeypatch.setattr(CGraph, "add", noting)
    return found


def test_only_what_is_expected_to_be_asked_for_is_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, imported = read(graph_body(branched()), {}, CPU), imports(monkeypatch)
    names = [tensor.name for tensor in reading.graph.tensors]
    shapes: Any = reading.graph.shapes
    shapes.expect([names.index("right:0")])
    assert shapes[names.index("right:0")] == (None, 5)
    assert [nodes & {"x", "left", "right", "after"} for nodes in imported] == [{"x", "right"}]
    assert shapes[names.index("after:0")] == (None, 5)  # a surprise
    assert shapes[names.index("left:0")] == (None, 3)
    assert [len(nodes & {"x", "left", "right", "after"}) for nodes in imported] == [2, 4]


def test_a_plan_infers_no_shapes_of_weight_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    with tf.Graph().as_default() as graph:
        weights = tf.compat.v1.get_variable("w", [4, 4], use_resource=True)
        value = tf.compat.v1.placeholder(tf.float32, [8, 4], name="x")
        loss = tf.reduce_mean(tf.linalg.band_part(value @ weights, 1, 1) @ weights)  # only TensorFlow knows its shape
        tf.compat.v1.train.AdamOptimizer().minimize(loss, name="train")
    reading, imported = read(graph_body(graph.as_graph_def()), {}, CPU), imports(monkeypatch)
    assert make_plan(reading.graph, CPU).changes_anything
    assert len(imported) == 1
    assert not any("ResourceApplyAdam" in name or "beta1_power" in name for name in imported[0])
    assert any("gradients" in name for name in imported[0])
