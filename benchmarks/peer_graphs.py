"""What a training step's forward and backward pass holds: ops in 16 bits, casts, and bytes moved. Start with `graphs`.

All graphs are measured in one way, whoever made them: every op reads its inputs and writes its outputs, every cast is a
kernel of its own; ops that only hand a buffer on move nothing.
"""

from math import prod
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from benchmarks.oracle import theirs
from benchmarks.peer_models import BATCH, build, loss_of

import mixdown
from mixdown.rules.tensorflow_traits import TRAITS

FLOATS = (tf.float32, tf.float16)
SOURCES = frozenset({"Const", "Placeholder", "ReadVariableOp"})
"""What only brings values in."""


class Measured(NamedTuple):
    """A graph in numbers."""

    low: int
    ops: int
    casts: int
    bytes: int


def graphs(name: str) -> dict[str, Measured]:
    """One model's forward and backward pass as every tool has it."""
    plain, fetches = traced(name, "float32")
    mixed, _ = traced(name, "mixed_float16")
    policy = mixdown.Policy(devices="all")
    made = {
        "float32": plain,
        "tensorflow": theirs(plain, fetches, "float16"),
        "keras": mixed,
        "mixdown": mixdown.rewrite_graph_def(plain, fetches, policy=policy).graph_def,
    }
    sizes = {tool: sizes_in(mixed if tool == "keras" else plain) for tool in made}
    return {tool: measured(graph, sizes[tool]) for tool, graph in made.items()}


def traced(name: str, policy: str) -> tuple[Any, list[str]]:
    """The graph of a model's loss and gradients under a Keras policy, and what to fetch from it."""
    keras.config.set_dtype_policy(policy)
    try:
        model = build(name)
    finally:
        keras.config.set_dtype_policy("float32")

    @tf.function(autograph=False)
    def step(x: Any, y: Any, scale: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(model, x, y) * scale
        return tape.gradient(loss, [each.value for each in model.trainable_variables])

    specs = tf.TensorSpec([BATCH, 64]), tf.TensorSpec([BATCH], tf.int32), tf.TensorSpec([])
    graph = step.get_concrete_function(*specs).graph
    return graph.as_graph_def(add_shapes=True), [
        tensor.name for tensor in tf.nest.flatten(graph.structured_outputs, expand_composites=True)
    ]


def sizes_in(graph_def: Any) -> dict[str, list[int]]:
    """How many numbers each output of every node holds."""
    return {
        node.name: [prod(size.size for size in shape.dim) for shape in node.attr["_output_shapes"].list.shape]
        for node in graph_def.node
    }


def measured(graph_def: Any, sizes: dict[str, list[int]]) -> Measured:
    """Count ops, casts and bytes."""
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    ops = [op for op in graph.get_operations() if op.type not in SOURCES and floats(op)]
    casts = [op for op in ops if is_cast(op)]
    others = [op for op in ops if op.type != "Cast"]
    low = [op for op in others if any(tensor.dtype == tf.float16 for tensor in floats(op))]
    moving = [*casts, *(op for op in others if op.type not in TRAITS.moves_nothing)]
    return Measured(
        len(low), len(others), len(casts), sum(moved(tensor, sizes) for op in moving for tensor in floats(op))
    )


def floats(op: Any) -> list[Any]:
    """What an op reads and makes that is float32 or float16."""
    return [tensor for tensor in (*op.inputs, *op.outputs) if tensor.dtype in FLOATS]


def is_cast(op: Any) -> bool:
    """Whether an op converts between float32 and float16, other than a constant, which is converted once for all."""
    return op.type == "Cast" and len(floats(op)) == 2 and op.inputs[0].op.type != "Const"


def moved(tensor: Any, sizes: dict[str, list[int]]) -> int:
    """The bytes of a tensor; a cast that a rewrite put in has the shape of what it casts."""
    op = tensor.op
    if not sizes.get(op.name):
        return moved(op.inputs[0], sizes) // op.inputs[0].dtype.size * tensor.dtype.size
    return sizes[op.name][tensor.value_index] * tensor.dtype.size
