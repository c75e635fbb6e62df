"""Turn a `tf.function` into one flat GraphDef: calls inlined, loops lowered, variables left as handles.

Start at `flatten`. The result holds no values of variables, so it stays small whatever the model's size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

# Grappler has no public Python interface (checked on 2.16 to 2.21: same module, same signature).
from tensorflow.python.grappler import tf_optimizer


@dataclass(frozen=True)
class Step:
    """One training step: a Python function for `tf.function` and the signature of its arguments."""

    run: Callable[..., Any]
    signature: tuple[tf.TensorSpec, ...]


@dataclass(frozen=True)
class FlatGraph:
    """A GraphDef without a function library; feeds and fetches are tensor names."""

    graph_def: Any
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]


def flatten(step: Step) -> FlatGraph:
    """Trace the step once and return it as a flat graph that any `tf.Graph` can import."""
    traced = tf.function(step.run, autograph=False).get_concrete_function(*step.signature)
    graph_def = traced.graph.as_graph_def()
    replace_captures(graph_def, traced)
    fetches = tuple(tensor.name for tensor in traced.outputs)
    captured = {inside.name for _, inside in traced.graph.captures}
    feeds = tuple(tensor.name for tensor in traced.inputs if tensor.name not in captured)
    flat = inline_functions(graph_def, keep=[*fetches, *feeds])
    if len(flat.library.function):
        left = sorted(function.signature.name for function in flat.library.function)
        raise ValueError(f"TensorFlow's function optimizer left calls to {left}: trace without jit_compile")
    return FlatGraph(flat, feeds, fetches)


def replace_captures(graph_def: Any, traced: Any) -> None:
    """Make what the trace captured part of the graph: variables as VarHandleOp, other tensors as Const."""
    outside = {inside.op.name: tensor for tensor, inside in traced.graph.captures}
    variables = {id(variable.handle): variable for variable in traced.graph.variables}
    for node in graph_def.node:
        if node.name not in outside:
            continue
        tensor = outside[node.name]
        if tensor.dtype == tf.resource:
            become_handle(node, variables[id(tensor)])
        else:
            become_constant(node, tensor)


def become_handle(node: Any, variable: Any) -> None:
    """Turn a captured resource placeholder into the handle of a variable of the same shape and dtype."""
    node.op = "VarHandleOp"
    node.attr.clear()
    node.attr["dtype"].type = variable.dtype.as_datatype_enum
    node.attr["shape"].shape.CopyFrom(variable.shape.as_proto())
    node.attr["shared_name"].s = node.name.encode()


def become_constant(node: Any, tensor: Any) -> None:
    """Turn a captured value's placeholder into a Const that holds the value."""
    node.op = "Const"
    node.attr.clear()
    node.attr["dtype"].type = tensor.dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(tensor.numpy()))


def inline_functions(graph_def: Any, keep: list[str]) -> Any:
    """Let TensorFlow's own optimizers inline calls, lower loops and branches, drop what nothing needs."""
    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1
    options.meta_optimizer_iterations = 1
    options.fail_on_optimizer_errors = True
    options.optimizers.extend(["function", "pruning"])
    meta_graph = tf.compat.v1.MetaGraphDef(graph_def=graph_def)
    names = dict.fromkeys(tensor.split(":")[0] for tensor in keep)
    meta_graph.collection_def["train_op"].node_list.value.extend(names)
    return tf_optimizer.OptimizeGraph(config, meta_graph, verbose=False)
