"""Sessions whose graph grows between runs: what was imported keeps its types. Start with `settle`.

A session never forgets a node, so a decision once carried out stands. Each time the graph has grown the whole of it is
planned anew, as if it had come at once; new nodes do as that plan says, old ones stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mixdown.core import Agreement, Cast, Category, Paint
from mixdown.tensorflow.protos.bodies import CALLS
from mixdown.tensorflow.protos.signatures import VARIANT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mixdown.core import Graph, Plan, Policy
    from mixdown.tensorflow.reading.read import Reading


def settle(reading: Reading, plan: Plan, imported: Collection[str], lowered: Mapping[str, Collection[str]]) -> Plan:
    """The plan with every imported node as it is, and with the casts inside functions only.

    Where casts stand in the outermost graph depends on what the twin already holds: `session_graph` sees to them.
    """
    graph, paints = plan.graph, list(plan.paints)
    fixed = _imported_paints(reading, graph, imported, lowered)
    for site, paint in fixed.items():
        paints[site] = paint
    for tie in graph.ties:
        leader = next((site for site in tie.sites if site in fixed), None)
        if tie.agreement is Agreement.SPREAD and leader is not None:
            for site in tie.sites:  # a new op on an old tensor list has to live with its elements
                paints[site] = fixed.get(site, paints[leader])
    return replace(plan, paints=tuple(paints), casts=tuple(_casts_in_functions(reading, graph, paints)))


def brings_nothing_low(operations: Iterable[Any], policy: Policy) -> bool:
    """Whether new operations can be taken as they are, without a look at the rest of the graph.

    They can if none of them is an allow op, calls a function, or touches a tensor list: nothing would ask to be low.
    """
    if any(override.category is Category.ALLOW and not override.is_plain for override in policy.overrides):
        return False
    categories = policy.categories()
    return all(
        categories.get(operation.type) is not Category.ALLOW and not _hides_something(operation)
        for operation in operations
    )


def _hides_something(operation: Any) -> bool:
    handles = any(tensor.dtype.as_datatype_enum == VARIANT for tensor in (*operation.inputs, *operation.outputs))
    return handles or operation.type in CALLS or operation.graph._is_function(operation.type)


def _imported_paints(
    reading: Reading, graph: Graph, imported: Collection[str], lowered: Mapping[str, Collection[str]]
) -> dict[int, Paint]:
    return {
        site: Paint.LOW if graph.sites[site].attribute in lowered.get(op.name, ()) else Paint.FULL
        for op, origin in zip(graph.ops, reading.origins, strict=True)
        if origin.body == 0 and op.name in imported
        for site in op.sites
    }


def _casts_in_functions(reading: Reading, graph: Graph, paints: Sequence[Paint]) -> list[Cast]:
    out = []
    for index, tensor in enumerate(graph.tensors):
        made = paints[tensor.site]
        wanted = next((paints[site] for site in tensor.consumers if paints[site] is not made), None)
        if wanted is not None and reading.origins[graph.sites[tensor.site].op].body != 0:
            out.append(Cast(index, wanted))
    return out
