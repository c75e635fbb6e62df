"""Shape functions in plain Python: they never contradict TensorFlow's own, and never know less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from benchmarks.corpus import TINY, load

from mixdown.core import Policy
from mixdown.core.graph import Shape
from mixdown.tensorflow.protos.bodies import graph_body
from mixdown.tensorflow.reading.read import read
from mixdown.tensorflow.shapes import body_shapes
from mixdown.tensorflow.shapes.inference import Shapes
from mixdown.tensorflow.shapes.known_values import summed_axes

raw = tf.raw_ops


def given(*sizes: int | None, dtype: Any = tf.float32) -> Any:
    """A value of a known or partly known shape."""
    return tf.compat.v1.placeholder(dtype, sizes)


def normalized(is_training: bool) -> Any:  # noqa: FBT001 - TensorFlow's name
    empty, four = tf.zeros([0]), tf.ones([4])
    image, rest = given(2, 3, 3, 4), empty if is_training else four
    made = raw.FusedBatchNormV3(x=image, scale=four, offset=four, mean=rest, variance=rest, is_training=is_training)
    return raw.FusedBatchNormGradV3(
        y_backprop=made.y,
        x=image,
        scale=four,
        reserve_space_1=made.reserve_space_1,
        reserve_space_2=made.reserve_space_2,
        reserve_space_3=made.reserve_space_3,
    ).x_backprop


def convolved(image: Any, padding: str, strides: int = 1, rate: int = 1, first: bool = False) -> Any:  # noqa: FBT001, FBT002
    kernel = given(3, 3, 4, 5)
    step, spread = ([1, 1, n, n] if first else [1, n, n, 1] for n in (strides, rate))
    form = "NCHW" if first else "NHWC"
    return tf.nn.conv2d(image, kernel, step, padding, data_format=form, dilations=spread)


def flattened(value: Any) -> Any:
    """A value with all but its first dimension joined, as Keras writes it down."""
    return tf.reshape(value, tf.stack([tf.shape(value)[0], -1]))


def contracted(value: Any) -> Any:
    """A product with the last axis of a value, whose shape is computed at run time."""
    return tf.tensordot(value, given(6, 7), [[2], [0]])


CASES: dict[str, Callable[[], Any]] = {
    "broadcasting": lambda: given(None, 1, 3) + given(2, None, 1),
    "broadcasting with an unknown size": lambda: given(None, 3) * given(5, 3),
    "broadcasting to more dimensions": lambda: tf.where(given(4, dtype=tf.bool), given(None, 4), given(2, 1, 1)),
    "comparing": lambda: tf.equal(given(None, 3), given(3)),
    "adding": lambda: tf.add_n([given(None, 3), given(2, None)]),
    "a derivative": lambda: raw.ReluGrad(gradients=given(None, 3), features=given(2, None)),
    "another derivative": lambda: raw.RsqrtGrad(y=given(None, 3), dy=given(2, None)),
    "a product": lambda: tf.matmul(given(None, 3), given(5, 3), transpose_b=True),
    "a product of the transposed": lambda: raw.MatMul(a=given(3, None), b=given(3, 4), transpose_a=True),
    "products": lambda: tf.matmul(given(None, 1, 2, 3), given(5, 3, 4)),
    "products of the transposed": lambda: tf.matmul(given(5, 3, 2), given(5, 4, 3), adjoint_a=True, adjoint_b=True),
    "a mean": lambda: tf.reduce_mean(given(None, 4, 5), [0, -1], keepdims=True),
    "a sum": lambda: tf.reduce_sum(given(None, 4, 5), 1),
    "a reshape": lambda: tf.reshape(given(2, 6), [-1, 3]),
    "a reshape of an unknown size": lambda: tf.reshape(given(None, 6), [-1, 3]),
    "a reshape to an unknown size": lambda: flattened(given(None, 4, 5)),
    "a reshape of nothing": lambda: tf.reshape(given(0, 6), [3, 0]),
    "a transposition": lambda: tf.transpose(given(None, 3, 4), [2, 0, 1]),
    "a squeeze": lambda: tf.squeeze(given(1, 3, 1, 4), [0, -2]),
    "a squeeze of all": lambda: tf.squeeze(given(1, 3, 1, 4)),
    "an expansion": lambda: tf.expand_dims(given(None, 3), -1),
    "joining": lambda: tf.concat([given(None, 3), given(2, 4)], 1),
    "joining along an unknown size": lambda: tf.concat([given(None, 3), given(2, 3)], 0),
    "stacking": lambda: tf.stack([given(None, 3), given(2, None)], -1),
    "unstacking": lambda: tf.unstack(given(None, 3), axis=1)[2],
    "tiling": lambda: tf.tile(given(None, 3), [2, 4]),
    "padding": lambda: tf.pad(given(None, 3), [[1, 2], [0, 0]]),
    "slicing": lambda: tf.slice(given(None, 3, 8), [1, 0, 2], [4, -1, -1]),
    "gathering": lambda: tf.gather(given(None, 3), given(5, 6, dtype=tf.int32), axis=1),
    "broadcasting to a shape": lambda: tf.broadcast_to(given(1, 3), [4, 3]),
    "filling": lambda: tf.fill(tf.stack([tf.shape(given(None, 3))[0], 2]), 1.0),
    "random numbers": lambda: tf.random.stateless_uniform(tf.shape(given(2, 3)), [1, 2]),
    "a bias": lambda: tf.nn.bias_add(given(None, 4, None), given(7)),
    "a bias of the first channels": lambda: tf.nn.bias_add(given(None, 4, 5, 6), given(4), data_format="NCHW"),
    "the derivative of a bias": lambda: raw.BiasAddGrad(out_backprop=given(None, 4, 7)),
    "cross-entropy": lambda: (
        raw.SparseSoftmaxCrossEntropyWithLogits(features=given(None, 5), labels=given(3, dtype=tf.int32)).backprop
    ),
    "convolution": lambda: convolved(given(None, 8, 9, 4), "SAME", strides=2),
    "convolution inside": lambda: convolved(given(2, 8, None, 4), "VALID", rate=2),
    "convolution of the first channels": lambda: convolved(given(2, 4, 8, 9), "VALID", strides=2, first=True),
    "depthwise convolution": lambda: tf.nn.depthwise_conv2d(
        given(None, 8, 9, 4), given(3, 3, 4, 2), [1, 2, 2, 1], "SAME"
    ),
    "the derivative of an image": lambda: tf.nn.conv2d_transpose(
        given(None, 4, 4, 5), given(3, 3, 4, 5), tf.stack([tf.shape(given(2, 1))[0], 8, 8, 4]), 2
    ),
    "the derivative of an image of an unknown size": lambda: tf.nn.conv2d_transpose(
        given(3, 4, 4, 5), given(3, 3, 4, 5), tf.stack([tf.shape(given(None, 1))[0], 8, 8, 4]), 2
    ),
    "pooling": lambda: tf.nn.max_pool2d(given(None, 8, 9, 4), 3, 2, "VALID"),
    "averages": lambda: tf.nn.avg_pool2d(given(2, 8, 9, 4), 3, 2, "SAME"),
    "normalization": lambda: normalized(is_training=True),
    "frozen normalization": lambda: normalized(is_training=False),
    "a product whose shape is computed": lambda: contracted(given(4, 5, 6)),
    "a product of an unknown size whose shape is computed": lambda: contracted(given(None, 5, 6)),
}


def shapes(graph_def: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Shape], list[Shape], list[str], list[str]]:
    """Shapes by our functions and by TensorFlow alone, the names of the values, and the nodes that we asked for."""
    asked: list[str] = []
    found = Shapes._asked

    def noting(self: Shapes, place: Any) -> Shape:
        asked.append(self._tree[place.body].body.nodes[place.node].name)
        return found(self, place)

    monkeypatch.setattr(Shapes, "_asked", noting)
    graph = read(graph_body(graph_def), {}, Policy(devices=("CPU",))).graph
    ours, named = list(graph.shapes), asked.copy()
    monkeypatch.setattr(body_shapes, "FUNCTIONS", {})
    theirs = list(read(graph_body(graph_def), {}, Policy(devices=("CPU",))).graph.shapes)
    return ours, theirs, [tensor.name for tensor in graph.tensors], named


def says_as_much(ours: Shape, theirs: Shape) -> bool:
    if theirs is None or ours is None:
        return theirs is None
    return len(ours) == len(theirs) and all(b in (None, a) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_a_shape_function_says_what_tensorflow_says_without_asking_it(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.Graph().as_default() as graph:
        tf.identity(CASES[case]())  # read by something, or it would not be a value of the graph
    ours, theirs, names, asked = shapes(graph.as_graph_def(), monkeypatch)
    assert dict(zip(names, ours, strict=True)) == dict(zip(names, theirs, strict=True))
    assert not asked


@pytest.mark.parametrize("name", TINY)
def test_shape_functions_never_contradict_tensorflow_on_a_training_step(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs, names, _ = shapes(load(name).graph_def, monkeypatch)
    assert [n for n, one, other in zip(names, ours, theirs, strict=True) if not says_as_much(one, other)] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [([3, 4], [3, 4]), ([1, 4], [1, 4]), ([1, 4], [3, 4]), ([2, 1, 4], [1, 4]), ([4], [1, 4]), ([], [2])],
)
def test_gradients_are_summed_over_the_axes_that_tensorflow_names(one: list[int], other: list[int]) -> None:
    axes = raw.BroadcastGradientArgs(s0=tf.constant(one, tf.int32), s1=tf.constant(other, tf.int32))
    assert summed_axes(tuple(one), tuple(other)) == tuple(tuple(side.numpy().tolist()) for side in axes)


BROKEN: dict[str, Callable[[], Any]] = {
    "sizes that do not go together": lambda: given(2, 3) + given(2, 3),
    "products that do not go together": lambda: tf.matmul(given(2, 3), given(3, 3)),
    "a reshape of too many": lambda: tf.reshape(given(2, 3), [6]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_graph_has_no_shapes(case: str) -> None:
    with tf.Graph().as_default() as graph:
        tf.identity(BROKEN[case](), name="end")
    graph_def = graph.as_graph_def()
    graph_def.node[0].attr["shape"].shape.dim[1].size = 5
    tensors = read(graph_body(graph_def), {}, Policy(devices=("CPU",))).graph
    made = {tensor.name: shape for tensor, shape in zip(tensors.tensors, tensors.shapes, strict=True)}
    assert [name for name, shape in made.items() if shape is None] == [graph_def.node[-1].input[0] + ":0"]


@pytest.mark.parametrize("kind", ["AddN", "ConcatV2"])
def test_inputs_that_no_op_can_take_are_left_to_tensorflow(kind: str) -> None:
    with tf.Graph().as_default() as graph:
        parts = [given(2, 3), given(2, 3)]
        tf.identity(tf.add_n(parts) if kind == "AddN" else tf.concat(parts, 1))
    graph_def = graph.as_graph_def()
    (made,) = (node for node in graph_def.node if node.op == kind)
    if kind == "AddN":
        made.attr["N"].i = 0
        del made.input[:]
    else:
        del graph_def.node[1].attr["shape"].shape.dim[1:]  # of another rank
    read_graph = read(graph_body(graph_def), {}, Policy(devices=("CPU",))).graph
    shapes_by_name = dict(zip([tensor.name for tensor in read_graph.tensors], read_graph.shapes, strict=True))
    assert shapes_by_name[f"{made.name}:0"] is None


def test_a_long_chain_of_integers_is_left_to_tensorflow() -> None:
    with tf.Graph().as_default() as graph:
        shape = tf.constant([2, 3])
        for _ in range(3000):
            shape = tf.identity(shape)
        tf.identity(tf.reshape(given(6), shape, name="r"))
    tensors = read(graph_body(graph.as_graph_def()), {}, Policy(devices=("CPU",))).graph
    assert dict(zip([tensor.name for tensor in tensors.tensors], tensors.shapes, strict=True))["r:0"] == (2, 3)
