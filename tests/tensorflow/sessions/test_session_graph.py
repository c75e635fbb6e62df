"""The twin of a graph, whatever the graph: laws that hold for graphs made at random, all at once or bit by bit."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorflow.sessions.session_lab import LOW, Trace, assert_same_surface, enabled, plainly, twin_graph, v1

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIDE = 2  # every tensor is a square matrix of this size, with values below 1

MAKERS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "product": lambda a, b: [tf.matmul(a, b) / 2],
    "sum": lambda a, b: [(a + b) / 2],
    "relu": lambda a, _: [tf.nn.relu(a)],
    "transpose": lambda a, _: [tf.transpose(a)],
    "denied": lambda a, _: [tf.exp(a - 1)],
    "barrier": lambda a, _: [tf.sin(a)],
    "split": lambda a, b: [tf.concat(tf.split(tf.concat([a, b], 1), 2, 1)[::-1], 0)[:SIDE]],
    "several": lambda a, b: list(tf.identity_n([a, tf.matmul(a, b) / 2])),
    "unpacked": lambda a, b: tf.unstack(tf.stack([a, tf.matmul(a, b) / 2])),
    "waiting": lambda a, b: [_after(b, a)],
    "called": lambda a, b: [tf.function(lambda x, y: tf.nn.relu(tf.matmul(x, y) / 2), autograph=False)(a, b)],
    "branched": lambda a, b: [v1.cond(tf.reduce_sum(a) > 1, lambda: tf.matmul(a, b) / 2, lambda: b)],
    "looped": lambda a, b: [_loop(a, b)],
    "index": lambda a, _: [tf.cast(tf.argmax(a, 0), tf.float32)[:, None] * tf.ones([1, SIDE]) / 4],
}


def _after(first: Any, second: Any) -> Any:
    with tf.control_dependencies([first]):
        return tf.identity(second)


def _loop(start: Any, weights: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, tf.nn.relu(tf.matmul(x, weights)) / 2), (0, start))[1]


Recipe = list[tuple[str, int, int]]
RECIPES: st.SearchStrategy[Recipe] = st.lists(
    st.tuples(st.sampled_from(sorted(MAKERS)), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=12
)


def build(recipe: Recipe, tensors: list[Any]) -> list[Any]:
    """Add what a recipe says to a graph; every step takes any tensors that are there."""
    for kind, one, other in recipe:
        tensors.extend(MAKERS[kind](tensors[one % len(tensors)], tensors[other % len(tensors)]))
    return tensors


def start() -> list[Any]:
    values = np.linspace(0, 0.9, SIDE * SIDE).reshape(SIDE, SIDE).astype("float32")
    return [v1.placeholder_with_default(values, [SIDE, SIDE], name="input")]


def run_in_float32(tensors: Sequence[Any], feeds: Any = None) -> Any:
    with v1.Session(graph=tensors[0].graph, config=plainly(mixed=False)) as session:
        return session.run(list(tensors), feeds)


@settings(max_examples=25, deadline=None)
@given(RECIPES)
def test_every_node_keeps_its_name_its_outputs_and_nearly_its_values(recipe: Recipe) -> None:
    with tf.Graph().as_default(), enabled(), v1.Session(config=plainly()) as session:
        tensors = build(recipe, start())
        for low, full in zip(session.run(tensors), run_in_float32(tensors), strict=True):
            assert low.dtype == full.dtype
            np.testing.assert_allclose(low, full, atol=0.02)
        assert_same_surface(session)


@settings(max_examples=15, deadline=None)
@given(RECIPES, st.integers(0, 12))
def test_a_graph_that_grows_computes_the_same_in_the_end(recipe: Recipe, cut: int) -> None:
    with tf.Graph().as_default(), enabled(), v1.Session(config=plainly()) as session:
        tensors = build(recipe[:cut], start())
        session.run(tensors[-1])
        before = {node.name: node for node in twin_graph(session).as_graph_def().node}
        build(recipe[cut:], tensors)
        for low, full in zip(session.run(tensors), run_in_float32(tensors), strict=True):
            np.testing.assert_allclose(low, full, atol=0.02)
        after = {node.name: node for node in twin_graph(session).as_graph_def().node}
        assert all(after[name] == node for name, node in before.items())
        assert_same_surface(session)


@settings(max_examples=15, deadline=None)
@given(RECIPES, st.integers(0, 50))
def test_feeding_any_tensor_reaches_all_its_consumers(recipe: Recipe, fed: int) -> None:
    with tf.Graph().as_default(), enabled(), v1.Session(config=plainly()) as session:
        tensors = build(recipe, start())
        feeds = {tensors[fed % len(tensors)]: np.full((SIDE, SIDE), 0.25, "float32")}
        for low, full in zip(session.run(tensors, feeds), run_in_float32(tensors, feeds), strict=True):
            np.testing.assert_allclose(low, full, atol=0.02)


@settings(max_examples=15, deadline=None)
@given(RECIPES)
def test_no_tensor_is_cast_twice_to_one_dtype(recipe: Recipe) -> None:
    with tf.Graph().as_default(), enabled(), v1.Session(config=plainly()) as session:
        tensors = build([*recipe, ("product", 0, 0)], start())
        trace = Trace(session, tensors)
        casts = [node for node in trace.nodes.values() if node.op == "Cast" and "__mixdown" in node.name]
        lowering = Counter(node.input[0] for node in casts if node.attr["DstT"].type == LOW)
        assert set(lowering.values()) == {1}
