"""Sessions whose graph grows between runs: nodes that were imported keep their dtypes. Start with `settle`.

A session cannot change a node it has, so a decision once carried out stands. Each time the graph has grown, all of it
is planned anew, as if it had come at once; new nodes do as that plan says, old ones stay as they are.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from mixdown.core import Agreement, Category, Graph, Paint, Plan, Policy
from mixdown.core.plan import summary_of
from mixdown.tensorflow.protos.bodies import CALLS
from mixdown.tensorflow.protos.signatures import VARIANT
from mixdown.tensorflow.reading.read import Reading


class SettledPlan(NamedTuple):
    """The plan of a session's whole graph, and what its sites really have: imported nodes keep what they got before."""

    plan: Plan
    reading: Reading  # what the plan was made of
    paints: tuple[Paint, ...]

    @property
    def graph(self) -> Graph:
        """The graph the plan is for."""
        return self.plan.graph

    @property
    def changes_anything(self) -> bool:
        """Whether any site is 16-bit."""
        return Paint.LOW in self.paints

    @property
    def summary(self) -> str:
        """What the session runs, in one line."""
        return summary_of(self.plan.view, self.paints)


def settle(
    reading: Reading, plan: Plan, imported: Collection[str], lowered: Mapping[str, Collection[str]]
) -> SettledPlan:
    """The plan, except that imported nodes stay as they are; `lowered` has their type attributes that are low."""
    graph, paints = plan.graph, list(plan.paints)
    fixed = _imported_paints(reading, graph, imported, lowered)
    for site, paint in fixed.items():
        paints[site] = paint
    for tie in graph.ties:
        leader = next((site for site in tie.sites if site in fixed), None)
        if tie.agreement is Agreement.SPREAD and leader is not None:
            for site in tie.sites:  # a new op on an old tensor list takes the dtype of its elements
                paints[site] = fixed.get(site, paints[leader])
    return SettledPlan(plan, reading, tuple(paints))


def brings_nothing_low(operations: Iterable[Any], policy: Policy) -> bool:
    """Whether new operations can be imported as they are, without planning the graph again.

    They can if none of them is an allow op, calls a function, or takes or makes a tensor list.
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
