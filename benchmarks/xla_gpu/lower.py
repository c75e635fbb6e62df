"""Variants of a training step, each as the HLO module that TensorFlow passes to XLA. Start with `lowered`.

TensorFlow needs no GPU for this: it only generates the module that XLA would compile for one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from benchmarks.flat_graph import inline_functions
from benchmarks.oracle import theirs
from benchmarks.xla_gpu.models import MODELS, signature, training_step

# The context has no public interface (checked on 2.21).
from tensorflow.python.eager import context

from mixdown import Policy, rewrite_graph_def

SCALE = 1024.0
Rewrite = Callable[[Any, Sequence[str], Sequence[str]], Any]
"""GraphDef, names of its feeds, names of its fetches -> GraphDef."""


@dataclass(frozen=True)
class Variant:
    """One way to train a model: with a Keras dtype policy, a rewrite of the graph, or neither."""

    keras_policy: str = "float32"
    rewrite: Rewrite | None = None

    @property
    def scale(self) -> float:
        """The loss scale."""
        return 1.0 if self == Variant() else SCALE


def tensorflows_colouring(low: str) -> Rewrite:
    """The graph as TensorFlow's own pass rewrites it; TensorFlow itself does not run the pass before XLA."""

    def rewrite(graph_def: Any, feeds: Sequence[str], fetches: Sequence[str]) -> Any:
        return theirs(inlined(graph_def, [*feeds, *fetches]), fetches, low)

    return rewrite


def mixdowns(policy: Policy) -> Rewrite:
    """A rewrite of a graph by mixdown under a policy, with the cost model for compiled functions."""

    def rewrite(graph_def: Any, feeds: Sequence[str], fetches: Sequence[str]) -> Any:
        result = rewrite_graph_def(graph_def, fetches, feeds=feeds, policy=policy)
        return inlined(result.graph_def, [*feeds, *fetches])

    return rewrite


def inlined(graph_def: Any, keep: Sequence[str]) -> Any:
    """A copy with all calls inlined, including those of functions that XLA compiles."""
    copy = tf.compat.v1.GraphDef()
    copy.CopyFrom(graph_def)
    for holder in (*copy.node, *copy.library.function):
        for mark in ("_XlaMustCompile", "_noinline"):
            holder.attr.pop(mark, None)
    return inline_functions(copy, list(keep))


def lowered(name: str, variant: Variant) -> bytes:
    """Lower one training step to a serialized HLO module."""
    keras.utils.clear_session()  # names of layers must not depend on what was lowered before
    keras.mixed_precision.set_dtype_policy(variant.keras_policy)
    example = MODELS[name]
    model = example.build()
    specs = signature(model, example)
    step = training_step(model, example, variant.scale)
    return to_hlo(rewritten(step, specs, variant.rewrite) if variant.rewrite else step, specs)


def rewritten(step: Callable[..., Any], specs: Sequence[tf.TensorSpec], rewrite: Rewrite) -> Callable[..., Any]:
    """Trace a step as a compiled function, rewrite its graph, and make it callable again."""
    compiled = tf.function(step, autograph=False, jit_compile=True)
    concrete = tf.function(compiled, autograph=False, input_signature=specs).get_concrete_function()
    graph = concrete.graph
    feeds, fetches = [tensor.name for tensor in graph.inputs], [tensor.name for tensor in graph.outputs]
    graph_def = rewrite(graph.as_graph_def(add_shapes=True), feeds, fetches)
    run = imported(graph_def, feeds, fetches)
    captured = [tensor.numpy() for tensor in concrete.captured_inputs]  # what the model computed when it was built
    return lambda *tensors: run(*tensors, *map(tf.constant, captured))


def imported(graph_def: Any, feeds: Sequence[str], fetches: Sequence[str]) -> Callable[..., Any]:
    """A Python function that imports a graph with its placeholders replaced by the arguments."""
    body = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    placeholders = {feed.split(":")[0] for feed in feeds}
    body.node.extend(node for node in graph_def.node if node.name not in placeholders)
    for function in graph_def.library.function:  # bodies of loops: importing a graph does not register them
        context.context().add_function_def(function)
    read = {name.lstrip("^").split(":")[0] for node in body.node for name in node.input}

    def run(*tensors: Any) -> list[Any]:
        inputs = {feed: tensor for feed, tensor in zip(feeds, tensors, strict=True) if feed.split(":")[0] in read}
        return tf.graph_util.import_graph_def(body, input_map=inputs, return_elements=list(fetches), name="")

    return run


def to_hlo(step: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> bytes:
    """The module that TensorFlow would pass to XLA for a GPU, serialized."""
    function = tf.function(step, autograph=False, jit_compile=True, input_signature=specs)
    return function.experimental_get_compiler_ir(*specs)(stage="hlo_serialized", platform_name="GPU")
