"""A saved graph with its functions, rewritten in place. Start with `rewrite_meta_graph`.

Functions that can be called from outside (the roots: when a model is loaded as Python objects) keep their names and
signatures. What only they call may get 16-bit arguments and results, under another name.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from mixdown.core import Plan, Policy, make_plan
from mixdown.core.gc_pause import collector_paused
from mixdown.errors import PolicyError
from mixdown.rules.layer_names import LayerScopes
from mixdown.tensorflow.machine.devices import default_type
from mixdown.tensorflow.protos import library, signatures
from mixdown.tensorflow.protos.bodies import CALLS, Body, cast_node, function_body, graph_body, reachable
from mixdown.tensorflow.reading.read import KEEP_MARK, read
from mixdown.tensorflow.shapes.variable_handles import handles_of_arguments
from mixdown.tensorflow.writing.function_family import apply_to_families

CUSTOM_GRADIENT = "_gradient_op_type"
"""Marks nodes with a custom gradient, a function of the user's that expects the dtypes it was made for."""


def rewrite_meta_graph(
    graph_def: Any, policy: Policy, *, roots: Collection[str], preserved: set[str], outputs: set[str]
) -> dict[str, Plan]:
    """Rewrite a graph and its library, in place; gives the plan of the graph itself, as "", and those of all roots.

    Nodes that are `preserved` keep their types. Those of `outputs` stay float32, but may compute in 16 bits if a cast
    follows. An override of the policy that matches no op is refused.
    """
    _refuse_idle_overrides(graph_def, policy)
    marked = _protect_custom_gradients(graph_def)
    originals = library.by_name(graph_def)
    functions = _ConvertedFunctions(originals, policy.low)
    known = sorted(originals.keys() & roots)
    with collector_paused():  # a function that is called reaches fewer others than its caller, and comes first
        known.sort(key=lambda name: len(reachable(function_body(originals[name]), originals)))
        plans: dict[str, Plan] = {}
        for root in known:
            plans[root], _, families = _rewrite(function_body(originals[root]), functions, (), policy)
            if plans[root].changes_anything:
                functions.add(families, root)
            else:
                functions.keep(root)
        plans[""] = _rewrite_graph(graph_def, functions, policy, preserved, outputs)
    library.replace_all(graph_def.library.function, functions.library(graph_def.node, roots, graph_def.library))
    for node in (node for node in nodes_of(graph_def) if node.name in marked and node.attr[KEEP_MARK].b):
        del node.attr[KEEP_MARK]
    return plans


def nodes_of(graph_def: Any) -> Iterator[Any]:
    """The nodes of a graph and of all functions in its library."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


class _ConvertedFunctions:
    """Rewritten functions under their final names. What several callers need in the same form is written once."""

    def __init__(self, originals: Mapping[str, Any], low: str) -> None:
        self.originals, self.low = originals, low
        self._written: dict[str, Any] = {}  # by name
        self._names: dict[tuple[str, bytes], str] = {}  # original and content -> name
        self._taken = set(originals)

    def keep(self, root: str) -> None:
        """Note that a function stays as it is."""
        self._names[root, _content(self.originals[root], root, {})] = root

    def add(self, families: Sequence[Mapping[str, Any]], root: str = "") -> dict[str, str]:
        """Take families of twins; returns their final names by those they have. The twin of `root` is named `root`."""
        originals = {twin.signature.name: name for family in families for name, twin in family.items()}
        names: dict[str, str] = {}
        for original in library.callees_first({name: self.originals[name] for name in originals.values()}):
            for twin in (family[original] for family in families if original in family):
                library.rename_calls(twin.node_def, names)
                key = (original, _content(twin, original, originals))
                is_root = original == root and twin is families[0][root]
                if is_root or key not in self._names:
                    self._names[key] = root if is_root else library.unused(f"{original}__{self.low}", self._taken)
                    self._written[self._names[key]] = twin
                names[twin.signature.name] = self._names[key]
                twin.signature.name = self._names[key]
        for name in names.values():
            if name in self._written:
                library.rename_partners(self._written[name], names)
        return names

    def library(self, nodes: Iterable[Any], roots: Iterable[str], saved: Any) -> list[Any]:
        """All functions of the model: the rewritten, and the originals that are not replaced or still referred to."""
        functions = {**self.originals, **self._written}
        replaced = {original for original, _ in self._names} - self._written.keys()
        found = {*roots, *library.mentioned(nodes), *(functions.keys() - replaced)}
        found.update(name for pair in saved.gradient for name in (pair.function_name, pair.gradient_func))
        found.update(gradient.gradient_func for gradient in saved.registered_gradients)
        used = library.referenced(found, functions, partners=True)
        return [function for name, function in functions.items() if name in used]


def _rewrite_graph(
    graph_def: Any, functions: _ConvertedFunctions, policy: Policy, preserved: set[str], outputs: set[str]
) -> Plan:
    named = [node for node in graph_def.node if node.name in outputs - preserved]
    # Calls return float32 as it is: the functions themselves cast.
    carried = {n.name for n in named if n.op not in CALLS and len(library.output_types(n, functions.originals)) == 1}
    plan, outermost, families = _rewrite(graph_body(graph_def), functions, preserved | (outputs - carried), policy)
    if plan.changes_anything:
        library.rename_calls(outermost.node, functions.add(families))
        _carry_back(outermost, carried, policy, functions.originals)
        del graph_def.node[:]
        graph_def.node.extend(outermost.node)
    return plan


def _carry_back(graph_def: Any, outputs: set[str], policy: Policy, originals: Mapping[str, Any]) -> None:
    """Give outputs that have become low another name, and their name to a cast to float32."""
    low, taken = signatures.LOW_TYPES[policy.low], {node.name for node in graph_def.node}
    lowered = [n for n in graph_def.node if n.name in outputs and library.output_types(n, originals) == [low]]
    names = {node.name: library.unused(f"{node.name}__{policy.low}", taken) for node in lowered}
    for node in graph_def.node:
        for index, text in enumerate(node.input):
            node.input[index] = names.get(text.removesuffix(":0"), text)
    for node in lowered:
        graph_def.node.append(cast_node(node.name, names[node.name], low, signatures.FLOAT, node.device))
        node.name = names[node.name]


def _rewrite(
    body: Body, functions: _ConvertedFunctions, preserved: Collection[str], policy: Policy
) -> tuple[Plan, Any, list[dict[str, Any]]]:
    reading = read(body, functions.originals, policy, preserved, handles=handles_of_arguments(body))
    plan = make_plan(reading.graph, policy)
    device = default_type(policy)
    return plan, *apply_to_families(reading, plan, device, lambda head: f"__mixdown_{head}" if head else "__mixdown")


def _content(function: Any, original: str, originals: Mapping[str, str]) -> bytes:
    """What a function does, whatever it and its partners are called."""
    copy = deepcopy(function)
    copy.signature.name = original
    library.rename_partners(copy, originals)
    return copy.SerializeToString(deterministic=True)


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
    scopes = LayerScopes(node.name for node in nodes_of(graph_def))
    for node in nodes_of(graph_def) if waiting else ():
        waiting = [override for override in waiting if not override.matches(node.op, node.name, scopes)]
    if waiting:
        subjects = "; ".join(override.subject for override in waiting)
        raise PolicyError(f"Nothing in this model matches {subjects}: mend or remove that rule.")


def note_new_kinds(meta_graph: Any) -> None:
    """Add the op definitions of new kinds to the list that a saved graph carries."""
    listed = meta_graph.meta_info_def.stripped_op_list.op
    known = {definition.name for definition in listed}
    for kind in sorted({node.op for node in nodes_of(meta_graph.graph_def)} - known):
        if (found := signatures.kind_of(kind)) is not None:
            listed.add().CopyFrom(found.definition)
