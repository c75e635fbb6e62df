"""What the tests of the reader and writer share: building graphs, rewriting them, and seeing what TensorFlow runs."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mixdown import Policy, rewrite_graph_def

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mixdown.core import Plan

v1 = tf.compat.v1
raw = tf.raw_ops
CPU = Policy(strategy="grappler", devices=("CPU",))  # its decisions can be told from the graph alone, not from sizes
BFLOAT16 = Policy(low="bfloat16", strategy="grappler", devices=("CPU",))
EYE = np.eye(2, dtype=np.float32)
ONES = np.ones((2, 2), np.float32)


def graph_of(build: Callable[[], object]) -> Any:
    """The GraphDef of what a function builds."""
    with tf.Graph().as_default() as graph:
        build()
    return graph.as_graph_def()


def x(name: str = "x", shape: Sequence[int] = (2, 2)) -> Any:
    """A matrix to feed, the same for the same name."""
    graph = v1.get_default_graph()
    if name in {op.name for op in graph.get_operations()}:
        return graph.get_tensor_by_name(f"{name}:0")
    return v1.placeholder(tf.float32, shape, name=name)


def matmul(a: Any, b: Any, name: str) -> Any:
    """An allow op."""
    return raw.MatMul(a=a, b=b, name=name)


def out(value: Any, name: str = "out") -> Any:
    """What is fetched."""
    return tf.identity(value, name=name)


@contextmanager
def loops_of_tensorflow_1() -> Iterator[None]:
    """Inside, loops are made of Enter, Merge and NextIteration."""
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


@dataclass(frozen=True)
class Run:
    """What TensorFlow computed, and the dtypes that each executed node put out."""

    values: list[Any]
    dtypes: Mapping[str, set[str]]

    def low(self, *, of: str = "") -> set[str]:
        """The nodes that put out 16-bit values, casts aside; those whose name contains a text."""
        low = {name for name, dtypes in self.dtypes.items() if dtypes & {"float16", "bfloat16"}}
        return {name for name in low if of in name and "/cast_" not in name}


def run(graph_def: Any, fetches: Sequence[str], feeds: Mapping[str, Any], init: str = "") -> Run:
    """Import a graph and run it in a Session, without any optimizer of TensorFlow."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1  # every node runs, equal ones too
    metadata = v1.RunMetadata()
    with v1.Session(graph=graph, config=config) as session:
        if init:
            session.run(init)
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        tensors = [graph.get_operation_by_name(fetch).outputs[0] for fetch in fetches]
        values = session.run(tensors, {f"{key}:0": value for key, value in feeds.items()}, options, metadata)
    return Run(values, _dtypes(metadata))


def _dtypes(metadata: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in (node for device in metadata.step_stats.dev_stats for node in device.node_stats):
        name = node.timeline_label.partition(" = ")[0] or node.node_name
        dtypes = {
            tf.as_dtype(slot.tensor_description.dtype).name for slot in node.output if slot.tensor_description.dtype
        }
        found.setdefault(name, set()).update(dtypes)
    return found


@dataclass(frozen=True)
class Checked:
    """A rewrite that was run and gives what float32 gives."""

    graph_def: Any
    plan: Plan
    run: Run

    def types(self, node: str) -> dict[str, Any]:
        """The type attributes of a node, in the graph or in any function."""
        return types_of(find(self.graph_def, node))


def checked(
    graph_def: Any,
    feeds: Mapping[str, Any],
    fetches: Sequence[str] = ("out",),
    policy: Policy = CPU,
    *,
    tolerance: float = 1e-2,
    init: str = "",
) -> Checked:
    """Rewrite a graph, run both, compare, and see that the original is as it was and a second rewrite does nothing."""
    before = graph_def.SerializeToString(deterministic=True)
    targets = [*fetches, init] if init else fetches
    rewrite = rewrite_graph_def(graph_def, targets, feeds=feeds, policy=policy)
    assert graph_def.SerializeToString(deterministic=True) == before
    if not policy.overrides:
        again = rewrite_graph_def(rewrite.graph_def, targets, feeds=feeds, policy=policy)
        assert again.graph_def == rewrite.graph_def
    ours, full = (run(one, fetches, feeds, init) for one in (rewrite.graph_def, graph_def))
    for one, other in zip(ours.values, full.values, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    return Checked(rewrite.graph_def, rewrite.plan, ours)


def nodes_of(graph_def: Any) -> Iterator[Any]:
    """Every node of a graph and of its functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def find(graph_def: Any, name: str) -> Any:
    """The node of that name."""
    return next(node for node in nodes_of(graph_def) if node.name == name)


def types_of(node: Any) -> dict[str, Any]:
    """The type attributes of a node by name."""
    out: dict[str, Any] = {}
    for name, value in node.attr.items():
        if value.WhichOneof("value") == "type":
            out[name] = tf.as_dtype(value.type).name
        elif value.list.type:
            out[name] = [tf.as_dtype(dtype).name for dtype in value.list.type]
    return out


def low_nodes(graph_def: Any) -> set[str]:
    """The nodes with a 16-bit type attribute, casts aside."""
    return {
        node.name
        for node in nodes_of(graph_def)
        if node.op != "Cast" and {"float16", "bfloat16"} & set(_flat(types_of(node).values()))
    }


def _flat(values: Any) -> list[str]:
    return [name for value in values for name in (value if isinstance(value, list) else [value])]


def casts(graph_def: Any) -> list[Any]:
    """Every cast of a graph and of its functions."""
    return [node for node in nodes_of(graph_def) if node.op == "Cast"]
