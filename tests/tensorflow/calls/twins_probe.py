"""What TensorFlow really executed: every op of the graphs it ran, after its own optimizers, with its dtype.

Start with `executed`. A result that merely differs from float32 proves nothing about one op; these lists do.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

# Private: the public way to the executed graphs writes them to a log directory. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager import context as eager_context
from tensorflow.python.eager import execute as eager_execute

import mixdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ON_CPU = mixdown.Policy(devices="all")
BFLOAT16 = mixdown.Policy(low="bfloat16", devices="all")
TYPE_ATTRIBUTES = ("T", "element_dtype", "dtype", "DstT")


class Node(NamedTuple):
    """An op that was executed."""

    name: str
    kind: str
    dtype: str


class Execution(NamedTuple):
    """What a call returned, the functions it handed to the runtime, and all ops that this executed."""

    value: Any
    functions: list[str]
    nodes: list[Node]

    def dtypes(self, kind: str) -> list[str]:
        """The dtype of every op of a kind that works on floating-point numbers."""
        return sorted(node.dtype for node in self.nodes if node.kind == kind and "float" in node.dtype)

    def all_low(self, *kinds: str, low: str = "float16") -> bool:
        """Whether there are ops of each kind and all of them ran in 16 bits."""
        return all(set(self.dtypes(kind)) == {low} for kind in kinds)

    def all_full(self, *kinds: str) -> bool:
        """Whether there are ops of each kind and all of them ran in float32."""
        return self.all_low(*kinds, low="float32")

    @property
    def has_low(self) -> bool:
        """Whether anything at all ran in 16 bits."""
        return any(node.dtype in ("float16", "bfloat16") for node in self.nodes)


def executed(call: Callable[[], Any]) -> Execution:
    """Make a call and list what it executed. TensorFlow tells only when it runs a function for the first time."""
    with _runtime_calls() as functions, eager_context.collect_graphs(optimized=True) as graphs:
        value = call()
    nodes: list[Any] = []
    for graph in graphs:
        own = {function.signature.name: function for function in graph.library.function}
        nodes.extend((*graph.node, *_called(graph.node, own)))
    for function in functions:
        if _compiled(function):  # XLA takes it whole: TensorFlow has no graph of its own to show
            nodes.extend(_tree(function))
    assert nodes, "nothing was executed for the first time"
    return Execution(value, functions, [Node(node.name, node.op, _dtype(node)) for node in nodes])


@contextmanager
def _runtime_calls() -> Iterator[list[str]]:
    """The names of the functions that reach the runtime inside the block."""
    names: list[str] = []
    original = eager_execute.execute

    def execute(op_name: str, *args: Any, **kwargs: Any) -> Any:
        if eager_context.context().has_function(op_name):
            names.append(op_name)
        return original(op_name, *args, **kwargs)

    eager_execute.execute = execute
    try:
        yield names
    finally:
        eager_execute.execute = original


def _compiled(function: str) -> bool:
    context = eager_context.context()
    definition = context.get_function_def(function) if context.has_function(function) else None
    return definition is not None and definition.attr["_XlaMustCompile"].b


def _tree(function: str) -> list[Any]:
    nodes = list(eager_context.context().get_function_def(function).node_def)
    return [*nodes, *_called(nodes, {})]


def _called(nodes: Any, own: Mapping[str, Any]) -> list[Any]:
    """The nodes of all functions that these nodes call, directly or not: a graph's own, or those registered."""
    seen, queue = set[str](), list(nodes)
    out: list[Any] = []
    for node in queue:
        for name in sorted({node.op, *_function_attributes(node)} - seen):
            seen.add(name)
            body = _body(name, own)
            out.extend(body)
            queue.extend(body)
    return out


def _body(name: str, own: Mapping[str, Any]) -> list[Any]:
    """The nodes of a function; Grappler specialises some for one call, under a name that starts with the original's."""
    context, base = eager_context.context(), name.partition("_specialized_for_")[0]
    if name in own:
        return list(own[name].node_def)
    return list(context.get_function_def(base).node_def) if context.has_function(base) else []


def _function_attributes(node: Any) -> list[str]:
    single = [value.func.name for value in node.attr.values() if value.HasField("func")]
    return [*single, *(function.name for value in node.attr.values() for function in value.list.func)]


def _dtype(node: Any) -> str:
    for attribute in TYPE_ATTRIBUTES:
        if attribute in node.attr and node.attr[attribute].type:
            return str(tf.dtypes.as_dtype(node.attr[attribute].type).name)
    return ""


def compared(call: Callable[[], Any], policy: mixdown.Policy = ON_CPU, tolerance: float = 2e-2) -> Execution:
    """Make a call that leaves no trace in float32, mixed, and in float32 again; returns what ran in between.

    The function is traced before it is mixed. Mixed it must be close, and afterwards bit-identical.
    """
    before = call()
    with mixdown.rewriting(policy):
        ran = executed(call)
    assert bits(call()) == bits(before)
    assert_close(ran.value, before, tolerance)
    return ran


def bits(value: Any) -> list[bytes]:
    """A structure of tensors as bytes: equal only if bit-identical."""
    return [part.tobytes() for part in arrays(value)]


def arrays(value: Any) -> list[Any]:
    """The tensors of a structure."""
    return [np.asarray(part) for part in tf.nest.flatten(value, expand_composites=True) if part is not None]


def assert_close(one: Any, other: Any, tolerance: float = 2e-2) -> None:
    """Assert that two structures are equal up to what 16 bits can do."""
    for left, right in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)
