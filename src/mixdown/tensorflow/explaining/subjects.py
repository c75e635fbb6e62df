"""What can be explained, each with the way to its plan. Start with `subjects`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from mixdown.reports.build import Facts
from mixdown.tensorflow.calls.twins import Registered
from mixdown.tensorflow.explaining import keras_models
from mixdown.tensorflow.explaining.stored import StoredGraph, load
from mixdown.tensorflow.machine.devices import device_type, machine_default
from mixdown.tensorflow.protos.saved_names import sinks
from mixdown.tensorflow.reading.products import products
from mixdown.tensorflow.runtime import source_lines
from mixdown.tensorflow.runtime.private import context, get_resource_handle_data
from mixdown.tensorflow.shapes.variable_handles import Handle
from mixdown.tensorflow.writing.function_family import Asked, rewrite_function
from mixdown.tensorflow.writing.graph_def import idle_overrides, rewrite_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixdown.core import Plan, Policy


class Wanted(NamedTuple):
    """What a user gives beside the target."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]
    fetches: tuple[str, ...]
    feeds: tuple[str, ...]
    signatures: tuple[str, ...]


class Outcome(NamedTuple):
    """A plan with all that is known about it."""

    name: str
    kind: str
    plan: Plan
    protos: Sequence[Any]
    facts: Facts
    idle: Sequence[str]  # rules of the policy that match nothing


class FunctionSubject(NamedTuple):
    """A traced function."""

    name: str
    concrete: Any

    def outcome(self, policy: Policy) -> Outcome:
        """What becomes of it when it is called here and now."""
        eager = context()
        device = device_type(eager.device_name) or machine_default()
        root = self.concrete.name
        root = root.decode() if isinstance(root, bytes) else root
        asked = Asked(root, policy, device, _handles(self.concrete.inputs))
        plan, reading, twins = rewrite_function(Registered(eager), asked)
        facts = Facts(source_lines.of_functions(plan.graph, eager), products(reading))
        idle = [override.subject for override in plan.idle_overrides]
        return Outcome(self.name, "function", plan, [twin for _, twin in twins], facts, idle)


class GraphSubject(NamedTuple):
    """A graph, from a file or not."""

    stored: StoredGraph
    user: Any = None  # the tf.Graph it comes from, if it does

    def outcome(self, policy: Policy) -> Outcome:
        """What `rewrite_graph_def` makes of it."""
        rewrite = rewrite_graph(self.stored.graph_def, self.stored.fetches, self.stored.feeds, policy)
        facts = rewrite.facts()
        if self.user is not None:
            facts = facts._replace(sources=source_lines.of_graph(rewrite.plan.graph, self.user))
        if self.stored.debug_info is not None:
            facts = facts._replace(sources=source_lines.of_saved_model(rewrite.plan.graph, self.stored.debug_info))
        idle = idle_overrides(rewrite)
        return Outcome(self.stored.name, "graph", rewrite.plan, [rewrite.graph_def], facts, idle)


def _handles(placeholders: Sequence[Any]) -> dict[int, Handle]:
    """The variables among the inputs of a traced function, by position, as `twins.handles` finds them in a call."""
    found = {
        position: get_resource_handle_data(placeholder)
        for position, placeholder in enumerate(placeholders)
        if placeholder.dtype == tf.resource
    }
    return {
        position: Handle(data.shape_and_type[0].dtype, data.shape_and_type[0].shape)
        for position, data in found.items()
        if data.is_set and data.shape_and_type
    }


Subject = FunctionSubject | GraphSubject


def subjects(target: Any, wanted: Wanted) -> list[Subject]:
    """What a target stands for.

    Raises:
        TypeError: nothing that has a graph.
    """
    if isinstance(target, str | PathLike):
        return [GraphSubject(_ends(stored, wanted)) for stored in load(Path(target), wanted.signatures)]
    if isinstance(target, tf.compat.v1.GraphDef):
        return [GraphSubject(_ends(StoredGraph("graph", target, (), sinks(target)), wanted))]
    if isinstance(target, tf.Graph):
        graph_def = target.as_graph_def(add_shapes=True)
        return [GraphSubject(_ends(StoredGraph("graph", graph_def, (), sinks(graph_def)), wanted), target)]
    if keras_models.is_model(target):
        return [_model(target, wanted.args)]
    if isinstance(target, tf.types.experimental.ConcreteFunction):
        return [FunctionSubject(_name(target), target)]
    return [_function(target, wanted)]


def _ends(stored: StoredGraph, wanted: Wanted) -> StoredGraph:
    """The graph with the feeds and fetches that the user gave, if any."""
    fetches, feeds = wanted.fetches or stored.fetches, wanted.feeds or stored.feeds
    return stored._replace(fetches=fetches, feeds=feeds)


def _model(model: Any, args: tuple[Any, ...]) -> FunctionSubject:
    if len(args) == 1 and isinstance(args[0], tf.data.Dataset):
        return FunctionSubject(
            f"a training step of {model.name}", keras_models.training_step(model, args[0].element_spec)
        )
    if len(args) > 1:
        return FunctionSubject(f"a training step of {model.name}", keras_models.training_step(model, args))
    return FunctionSubject(f"the forward pass of {model.name}", keras_models.forward(model, *args))


def _function(target: Any, wanted: Wanted) -> FunctionSubject:
    found = next((each for each in _unwrapped(target) if hasattr(each, "get_concrete_function")), None)
    if found is None and callable(target):
        found = tf.function(target)
    if found is None:
        raise TypeError(
            f"A {type(target).__name__} has no graph to explain. Give a tf.function, a Keras model, a tf.Graph, a "
            f"GraphDef, or the path of a SavedModel or .pb file."
        )
    return FunctionSubject(_name(target), found.get_concrete_function(*wanted.args, **wanted.keywords))


def _unwrapped(target: Any) -> list[Any]:
    """The target and what decorators wrap in it."""
    out = [target]
    while (inner := getattr(out[-1], "__wrapped__", None)) is not None:
        out.append(inner)
    return out


def _name(target: Any) -> str:
    function = getattr(target, "python_function", target)
    name = getattr(function, "__name__", None) or getattr(target, "name", type(target).__name__)
    return name.decode() if isinstance(name, bytes) else str(name)
