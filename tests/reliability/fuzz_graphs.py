"""The laws of graphs written node by node: tensor lists, conditionals, references, any order, any device.

Their values may be anything, so their results are not compared; but nothing may break. Start with `check_graph`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from hypothesis import reject
from tests.parity.control_flow import Loop
from tests.parity.recipes import cook
from tests.reliability.fuzz_functions import bits, surface

import mixdown

if TYPE_CHECKING:
    from tests.parity.recipes import Dish, Recipe

    from mixdown.core import Policy

v1 = tf.compat.v1
FED = ("Placeholder", "ReadVariableOp", "VariableV2")
"""What stands for a value from outside: fed, so that no variable need be initialised."""


def runnable(recipe: Recipe) -> Recipe:
    """The recipe without its loops: they are made to be planned, and TensorFlow would wait in some for ever."""
    return replace(recipe, steps=tuple(step for step in recipe.steps if not isinstance(step, Loop)))


def check_graph(recipe: Recipe, policy: Policy) -> None:
    """Run a graph in float32, mixed, and in float32 again; assert all laws, unless float32 itself refuses to run it."""
    dish = cook(recipe)
    try:
        before, _ = run(dish)
    except (tf.errors.OpError, TypeError):  # reads an element that no list has, or takes a list that Python cannot feed
        reject()
    with mixdown.rewriting(policy):
        mixed, low = run(dish)
    after, _ = run(dish)
    assert surface(mixed) == surface(before), "dtypes or shapes differ"
    assert bits(after) == bits(before), "float32 is not what it was before"
    assert low or bits(mixed) == bits(before), "nothing is low, and yet something changed"


def run(dish: Dish) -> tuple[dict[str, Any], bool]:
    """Run a graph in a session of its own: what is fetched, and whether anything was low."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(dish.graph_def, name="")
        config = v1.ConfigProto(allow_soft_placement=True, operation_timeout_in_ms=20_000)
        with v1.Session(graph=graph, config=config) as session:
            values = session.run({name: name for name in dish.fetches}, _feeds(graph))
            twin = getattr(session, "_mixdown_twin", None)
    return values, twin is not None and twin.plan is not None and twin.plan.changes_anything


def _feeds(graph: Any) -> dict[Any, Any]:
    dice = np.random.default_rng(0)
    fed = [operation.outputs[0] for operation in graph.get_operations() if operation.type in FED]
    return {tensor: _value(dice, tensor) for tensor in fed if tensor.dtype != tf.variant}


def _value(dice: np.random.Generator, tensor: Any) -> Any:
    if tensor.dtype == tf.int32 and tensor.shape == (2,):
        return np.array([16, 16], np.int32)  # a shape of a matrix, which is what two integers are for
    shape = tensor.shape.as_list() if tensor.shape.rank else []  # to a placeholder, a scalar's shape means any
    values = dice.uniform(0, 2, shape)
    return values.astype(tensor.dtype.base_dtype.as_numpy_dtype)
