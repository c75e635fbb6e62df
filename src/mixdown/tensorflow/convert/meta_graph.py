"""A saved graph with its functions, rewritten in place. Start with `rewrite_meta_graph`.

Functions that can be called from outside (by the graph itself, or by whoever loads the model as Python objects) keep
their names and signatures. What only they call may get low arguments and results, under another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixdown.core import make_plan
from mixdown.errors import PolicyError
from mixdown.tensorflow.convert.functions import Functions, rename_calls
from mixdown.tensorflow.machine.devices import default_type
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import CALLS, function_body, graph_body, reachable
from mixdown.tensorflow.reading.read import KEEP_MARK, read
from mixdown.tensorflow.runtime.gc_pause import collector_paused
from mixdown.tensorflow.sessions.functions import Functions as SessionFunctions
from mixdown.tensorflow.sessions.graph import MARK, output_types
from mixdown.tensorflow.shapes.variable_handles import handles_of_arguments
from mixdown.tensorflow.writing.apply import unused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from mixdown.core import Plan, Policy
    from mixdown.tensorflow.protos.bodies import Body

CUSTOM_GRADIENT = "_gradient_op_type"
"""Marks nodes whose gradient is a function of the user's: it expects the types that it was made for."""


def rewrite_meta_graph(
    graph_def: Any, policy: Policy, *, roots: Collection[str], preserved: set[str], outputs: set[str]
) -> dict[str, Plan]:
    """Rewrite a graph and its library, in place.

    Args:
        graph_def: the graph.
        policy: what may be low, and where.
        roots: names of functions that can be called from outside.
        preserved: names of nodes that keep their types.
        outputs: names of nodes that must give what they gave: they may be low if a cast stands behind them.

    Returns:
        The plan of the graph itself, as "", and those of all roots.

    Raises:
        GraphError: the graph is broken.
        PolicyError: an override of the policy matches no op.
    """
    _refuse_idle_overrides(graph_def, policy)
    marked = _protect_custom_gradients(graph_def)
    library = {function.signature.name: function for function in graph_def.library.function}
    functions = Functions(library, policy.low)
    with collector_paused():
        plans = {root: _rewrite_root(root, functions, policy) for root in _callees_first(roots, library)}
        plans[""] = _rewrite_graph(graph_def, functions, policy, preserved, outputs)
    final = functions.library(graph_def.node, roots, graph_def.library)
    copies = [type(function).FromString(function.SerializeToString()) for function in final]
    del graph_def.library.function[:]
    graph_def.library.function.extend(copies)
    for node in (node for node in nodes_of(graph_def) if node.name in marked and node.attr[KEEP_MARK].b):
        del node.attr[KEEP_MARK]
    return plans


def nodes_of(graph_def: Any) -> Iterator[Any]:
    """The nodes of a graph and of all functions in its library."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _callees_first(roots: Collection[str], library: Mapping[str, Any]) -> list[str]:
    """A function that is called reaches fewer others than its caller."""
    known = sorted(name for name in roots if name in library)
    return sorted(known, key=lambda name: len(reachable(function_body(library[name]), library)))


def _rewrite_root(root: str, functions: Functions, policy: Policy) -> Plan:
    plan, outermost, twins = _rewrite(function_body(functions.originals[root]), functions, (), policy)
    if plan.changes_anything:
        functions.add([outermost, *twins], root=f"{root}{MARK}")
    else:
        functions.keep(root)
    return plan


def _rewrite_graph(
    graph_def: Any, functions: Functions, policy: Policy, preserved: set[str], outputs: set[str]
) -> Plan:
    named = [node for node in graph_def.node if node.name in outputs - preserved]
    # Functions return float32 as it is: a cast in them serves those who call them as objects too.
    carried = {n.name for n in named if n.op not in CALLS and len(output_types(n, functions.originals)) == 1}
    plan, outermost, twins = _rewrite(graph_body(graph_def), functions, preserved | (outputs - carried), policy)
    if plan.changes_anything:
        rename_calls(outermost.node, functions.add(twins))
        _carry_back(outermost, carried, policy, functions.originals)
        del graph_def.node[:]
        graph_def.node.extend(outermost.node)
    return plan


def _carry_back(graph_def: Any, outputs: set[str], policy: Policy, library: Mapping[str, Any]) -> None:
    """Let outputs that have become low compute under another name, and a cast to float32 have theirs."""
    low, taken = signatures.LOW_TYPES[policy.low], {node.name for node in graph_def.node}
    lowered = [n for n in graph_def.node if n.name in outputs and output_types(n, library) == [low]]
    names = {node.name: unused(f"{node.name}__{policy.low}", taken) for node in lowered}
    for node in graph_def.node:
        for index, text in enumerate(node.input):
            node.input[index] = names.get(text.removesuffix(":0"), text)
    for node in lowered:
        cast = graph_def.node.add(name=node.name, op="Cast", input=[names[node.name]], device=node.device)
        cast.attr["SrcT"].type, cast.attr["DstT"].type, cast.attr["Truncate"].b = low, signatures.FLOAT, False
        node.name = names[node.name]


def _rewrite(body: Body, functions: Functions, preserved: Collection[str], policy: Policy) -> tuple[Plan, Any, Any]:
    reading = read(body, functions.originals, policy, preserved, handles=handles_of_arguments(body))
    plan = make_plan(reading.graph, policy)
    return (plan, *SessionFunctions().apply(reading, plan, default_type(policy)))


def _protect_custom_gradients(graph_def: Any) -> set[str]:
    """Mark nodes with a gradient of their own, such that they keep their types; returns their names."""
    named = set()
    for node in nodes_of(graph_def):
        if CUSTOM_GRADIENT in node.attr and node.op not in CALLS and KEEP_MARK not in node.attr:
            node.attr[KEEP_MARK].b = True
            named.add(node.name)
    return named


def _refuse_idle_overrides(graph_def: Any, policy: Policy) -> None:
    """Refuse a rule that names nothing at all."""
    waiting = [override for override in policy.overrides if not override.is_plain]
    for node in nodes_of(graph_def) if waiting else ():
        waiting = [override for override in waiting if not override.matches(node.op, node.name)]
    if waiting:
        subjects = "; ".join(override.subject for override in waiting)
        raise PolicyError(f"Nothing in this model matches {subjects}: mend or remove that rule.")


def note_new_kinds(meta_graph: Any) -> None:
    """Bring the list of op definitions up to date that a saved graph carries."""
    listed = meta_graph.meta_info_def.stripped_op_list.op
    known = {definition.name for definition in listed}
    for kind in sorted({node.op for node in nodes_of(meta_graph.graph_def)} - known):
        if (found := signatures.kind_of(kind)) is not None:
            listed.add().CopyFrom(found.definition)
