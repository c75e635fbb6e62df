"""What can be explained: each target as graphs with their plans, neither run nor registered. See `planned_graphs`."""

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.framework import graph_debug_info_pb2, graph_pb2

from mixdown.core import Plan, Policy
from mixdown.core.pricing.machines import Machine
from mixdown.errors import GraphError
from mixdown.reports.build import Facts
from mixdown.tensorflow.calls.twins import Registered
from mixdown.tensorflow.explaining import keras_models
from mixdown.tensorflow.machine.devices import device_type, machine_default
from mixdown.tensorflow.protos import files
from mixdown.tensorflow.protos.bodies import CALLS, MUST_COMPILE, Body, function_body, reached, tree_of
from mixdown.tensorflow.protos.kernels import compiler_of, registered_kernels
from mixdown.tensorflow.protos.saved_names import sinks, tensor_names
from mixdown.tensorflow.protos.wiring import node_name
from mixdown.tensorflow.reading.products import products
from mixdown.tensorflow.runtime import source_lines
from mixdown.tensorflow.runtime.keras_files import loaded
from mixdown.tensorflow.runtime.private import context
from mixdown.tensorflow.shapes.variable_handles import handles_of_inputs
from mixdown.tensorflow.writing.function_family import rewrite_function
from mixdown.tensorflow.writing.graph_def import idle_overrides, rewrite_graph
from mixdown.tensorflow.writing.known_plans import Asked, planned
from mixdown.untrusted.model_files import is_file, kind_of, refuse_signatures, saved_model_folder

DEBUG_INFO = "debug/saved_model_debug_info.pb"
"""Where a SavedModel keeps source lines, if it was saved with `tf.saved_model.SaveOptions(save_debug_info=True)`."""

INTERNAL = "__saved_model"
"""How the names of signatures begin that TensorFlow adds for itself."""


class StoredGraph(NamedTuple):
    """A graph with what is fed and fetched."""

    name: str
    graph_def: Any
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    debug_info: Any = None  # of the SavedModel it lies in, if that was saved with it


class PlannedGraph(NamedTuple):
    """A function or graph with its plan and all that is known about it."""

    name: str
    kind: str
    plan: Plan
    protos: Sequence[Any]  # what would be run: a GraphDef; or FunctionDefs, none if nothing changes
    facts: Facts
    idle: Sequence[str]  # rules of the policy that match nothing
    is_model: bool = False  # one of Keras
    compiled: Callable[[], Plan | None] | None = None  # plans a function as if XLA compiled it, if XLA could


def planned_graphs(
    target: Any,
    policy: Policy,
    args: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    *,
    fetches: Iterable[str] = (),
    feeds: Iterable[str] = (),
    signatures: Iterable[str] = (),
    machine: Machine | None = None,
    jit_compile: bool | None = None,
) -> list[PlannedGraph]:
    """Plan all graphs of a target as they run on a machine, or here; arguments and errors as for `explain`."""
    if isinstance(target, str | PathLike) and kind_of(saved_model_folder(Path(target))) == "Keras":
        refuse_signatures(Path(target), tuple(signatures))
        target = loaded(Path(target), compiled=_are_batches(args))
    if keras_models.is_model(target):
        if jit_compile is None and machine is not None:
            jit_compile = keras_models.is_compiled_by_default(target)
        traced = _traced_model(target, args, jit_compile=jit_compile)
        return [_plan_function(*traced, policy)._replace(is_model=True)]
    if jit_compile is not None:
        raise GraphError(
            "jit_compile is for Keras models, and anything else is explained as it is. To explain a function as "
            "compiled, give tf.function(f, jit_compile=True)."
        )
    if isinstance(target, str | PathLike):
        found = _load(Path(target), tuple(signatures))
    elif isinstance(target, tf.Graph | tf.compat.v1.GraphDef):
        graph_def = target.as_graph_def(add_shapes=True) if isinstance(target, tf.Graph) else target
        found = [StoredGraph("graph", graph_def, (), sinks(graph_def))]
    elif isinstance(target, tf.types.experimental.ConcreteFunction):
        return [_plan_function(_name(target), target, policy)]
    else:
        concrete = _traceable(target).get_concrete_function(*args, **(keywords or {}))
        return [_plan_function(_name(target), concrete, policy)]
    feeds, fetches = tuple(feeds), tuple(fetches)
    chosen = [one._replace(feeds=feeds or one.feeds, fetches=fetches or one.fetches) for one in found]
    return [_plan_graph(one, target, policy) for one in chosen]


def _plan_function(name: str, concrete: Any, policy: Policy) -> PlannedGraph:
    """Plan a traced function as if it were called here and now."""
    eager = context()
    device = device_type(eager.device_name) or machine_default()
    asked = Asked(tf.compat.as_str(concrete.name), policy, device, handles_of_inputs(concrete.inputs))
    library = Registered(eager)
    plan, reading, twins = rewrite_function(library, asked)
    facts = Facts(source_lines.of_functions(plan.graph, eager), products(reading))
    idle = [override.subject for override in plan.idle_overrides]
    protos = [twin for _, twin in twins]
    return PlannedGraph(name, "function", plan, protos, facts, idle, compiled=lambda: _plan_compiled(library, asked))


def _plan_compiled(library: Mapping[str, Any], asked: Asked) -> Plan | None:
    """Plan a function as if all of it that XLA can compile said `jit_compile=True`; None if XLA can compile nothing."""
    compiler = compiler_of(asked.device)
    tree = tree_of(function_body(library[asked.root]), library)
    marked = {body.function: deepcopy(body.proto) for body in tree if _is_known_to(compiler, body, library)}
    for function in marked.values():
        function.attr[MUST_COMPILE].b = True
    return planned(ChainMap(marked, library), asked).plan if marked else None  # type: ignore[arg-type]  # only read


def _is_known_to(compiler: str, body: Body, library: Mapping[str, Any]) -> bool:
    """Whether a compiler has kernels for all ops of a function and of what it calls."""
    tree = tree_of(body, library)
    kinds = {node.op for one in tree for node in one.nodes} - CALLS.keys() - {one.function for one in tree}
    return all(any(device == compiler for device, _ in registered_kernels(kind)) for kind in kinds)


def _plan_graph(stored: StoredGraph, target: Any, policy: Policy) -> PlannedGraph:
    """Plan a graph as `rewrite_graph_def` does."""
    rewrite = rewrite_graph(stored.graph_def, stored.fetches, stored.feeds, policy)
    facts = rewrite.facts()
    if isinstance(target, tf.Graph):
        facts = facts._replace(sources=source_lines.of_graph(rewrite.plan.graph, target))
    if stored.debug_info is not None:
        facts = facts._replace(sources=source_lines.of_saved_model(rewrite.plan.graph, stored.debug_info))
    return PlannedGraph(stored.name, "graph", rewrite.plan, [rewrite.graph_def], facts, idle_overrides(rewrite))


def _traced_model(model: Any, args: Sequence[Any], *, jit_compile: bool | None) -> tuple[str, Any]:
    if _are_batches(args):
        batch = args[0].element_spec if len(args) == 1 else args
        return f"a training step of {model.name}", keras_models.training_step(model, batch, jit_compile=jit_compile)
    return f"the forward pass of {model.name}", keras_models.forward(model, *args, jit_compile=bool(jit_compile))


def _are_batches(args: Sequence[Any]) -> bool:
    """Whether arguments of a model are for a training step: x, y and maybe sample weights, or a dataset of such."""
    return len(args) > 1 or (len(args) == 1 and isinstance(args[0], tf.data.Dataset))


def _traceable(target: Any) -> Any:
    """The tf.function that a target is or, below its decorators, wraps; one of its own for a plain function."""
    inner = target
    while inner is not None:
        if hasattr(inner, "get_concrete_function"):
            return inner
        inner = getattr(inner, "__wrapped__", None)
    if callable(target):
        return tf.function(target)
    raise TypeError(
        f"A {type(target).__name__} has no graph to explain. Give a tf.function, a Keras model, a tf.Graph, a "
        f"GraphDef, or the path of a SavedModel, .keras, .h5 or .pb file."
    )


def _name(target: Any) -> str:
    function = getattr(target, "python_function", target)
    name = getattr(function, "__name__", None) or getattr(target, "name", type(target).__name__)
    return tf.compat.as_str(name)


def _load(path: Path, signatures: Collection[str] = ()) -> list[StoredGraph]:
    """The signatures of a SavedModel that are asked for, or all, or the one graph of a file."""
    folder = saved_model_folder(path)
    if kind_of(folder) == "SavedModel":
        return _signatures(folder, signatures)
    refuse_signatures(path, signatures)
    graph_def = files.proto_in(path, graph_pb2.GraphDef, "does not hold a GraphDef")
    return [StoredGraph(path.name, graph_def, (), sinks(graph_def))]


def _signatures(folder: Path, wanted: Collection[str]) -> list[StoredGraph]:
    metas = files.saved_model_in(folder).meta_graphs
    meta = max(metas, key=lambda meta: "serve" in meta.meta_info_def.tags)
    known = sorted(name for name in meta.signature_def if not name.startswith(INTERNAL))
    if unknown := sorted(set(wanted) - set(known)):
        raise GraphError(f"{folder} has no signature {', '.join(unknown)}; it has {', '.join(known) or 'none'}.")
    if not known:
        raise GraphError(f"{folder} has no signatures: save it with tf.saved_model.save(..., signatures=...).")
    lines, kind = folder / DEBUG_INFO, graph_debug_info_pb2.GraphDebugInfo
    debug_info = files.proto_in(lines, kind, "does not hold debug info") if is_file(lines) else None
    return [_signature(name, meta, debug_info) for name in known if not wanted or name in wanted]


def _signature(name: str, meta: Any, debug_info: Any) -> StoredGraph:
    signature = meta.signature_def[name]
    feeds, fetches = (
        tuple(sorted({name for info in ends.values() for name in tensor_names(info) if name}))
        for ends in (signature.inputs, signature.outputs)
    )
    return StoredGraph(name, _pruned(meta.graph_def, fetches), feeds, fetches, debug_info)


def _pruned(graph_def: Any, fetches: Iterable[str]) -> Any:
    """The part of a graph that is needed for some tensors."""
    nodes = {node.name: node for node in graph_def.node}
    needed = set(
        reached(map(node_name, fetches), lambda name: map(node_name, nodes[name].input if name in nodes else ()))
    )
    kept = [node for node in graph_def.node if node.name in needed]
    return graph_pb2.GraphDef(node=kept, library=graph_def.library, versions=graph_def.versions)
