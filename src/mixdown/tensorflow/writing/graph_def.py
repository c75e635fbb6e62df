"""GraphDef in, GraphDef out: `rewrite_graph_def`."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow.core.framework import graph_pb2

from mixdown.core import Plan, Policy
from mixdown.core.gc_pause import collector_paused
from mixdown.core.policy import policy_or
from mixdown.errors import GraphError, PolicyError
from mixdown.reports import Report
from mixdown.reports.build import Facts, graph_report
from mixdown.reports.rendering.blocks import summary
from mixdown.rules.layer_names import LayerScopes
from mixdown.tensorflow.machine.devices import versions
from mixdown.tensorflow.protos.bodies import graph_body
from mixdown.tensorflow.protos.library import by_name, mentioned, referenced, replace_all, unused
from mixdown.tensorflow.protos.wiring import LONGEST_PORT, node_name
from mixdown.tensorflow.reading.products import products
from mixdown.tensorflow.reading.read import Reading
from mixdown.tensorflow.runtime.source_lines import of_graph_def
from mixdown.tensorflow.writing.apply import apply
from mixdown.tensorflow.writing.planning import read_and_plan
from mixdown.untrusted.escaped import escaped


class Rewrite(NamedTuple):
    """A rewritten graph, and the plan it follows."""

    graph_def: Any
    plan: Plan
    reading: Reading | None = None  # what the plan was made of

    def __str__(self) -> str:
        return "\n".join(map(escaped, summary(graph_report(self.plan, "", "graph"))))

    def report(self, title: str = "A rewritten graph") -> Report:
        """All of it for people: every op with its reason, every cast. See `save`."""
        return Report(title, versions(), (graph_report(self.plan, title, "graph", self.facts()),))

    def facts(self) -> Facts:
        """Source lines and matrix products, which a report shows beside the plan."""
        if self.reading is None:
            return Facts()
        return Facts(of_graph_def(self.plan.graph, self.reading.bodies[0].proto), products(self.reading))

    def save(self, path: str | Path) -> Path:
        """Write the report as a page (`.html`), as JSON (`.json`) or as text (`.txt`).

        Raises:
            ValueError: the name ends in something else.
        """
        return self.report().save(path)


def rewrite_graph_def(
    graph_def: Any, fetches: Iterable[str], *, feeds: Iterable[str] = (), policy: Policy | None = None
) -> Rewrite:
    """Run the safe, expensive ops of a graph in 16 bits.

    Args:
        graph_def: the graph, with its function library. It is not changed.
        fetches: names of nodes or tensors that will be fetched or run: they keep their name and dtype.
        feeds: names of nodes or tensors that will be fed: they keep their name and dtype.
        policy: what may run in 16 bits, and where; the default policy if None.

    Returns:
        The rewritten copy and the plan, which can say why every op is as it is.

    Raises:
        GraphError: the graph is broken, or a feed or fetch is not in it.
        PolicyError: an override of the policy matches no op of this graph.
    """
    _refuse_other_than_graph_def(graph_def)
    rewrite = rewrite_graph(graph_def, fetches, feeds, policy_or(policy, Policy()))
    if idle := idle_overrides(rewrite):
        raise PolicyError(f"Nothing in this graph matches {'; '.join(idle)}: mend or remove that rule.")
    return rewrite


def _refuse_other_than_graph_def(given: Any) -> None:
    if isinstance(given, str | PathLike):
        raise GraphError(
            f"rewrite_graph_def takes a GraphDef, not the path {str(given)!r}. To rewrite a file, call "
            f"mixdown.convert_saved_model({str(given)!r}, <where the converted one goes>)."
        )
    if not isinstance(given, graph_pb2.GraphDef):
        way_out = "Pass its as_graph_def()." if hasattr(given, "as_graph_def") else "mixdown.explain takes most others."
        raise GraphError(f"rewrite_graph_def takes a GraphDef, not a {type(given).__name__}. {way_out}")


def rewrite_graph(graph_def: Any, fetches: Iterable[str], feeds: Iterable[str], policy: Policy) -> Rewrite:
    """What `rewrite_graph_def` does, except that rules of the policy may match nothing."""
    if isinstance(fetches, str) or isinstance(feeds, str):
        raise GraphError("Give feeds and fetches as a list of names, not as one text.")
    tensors = [*fetches, *feeds]
    preserved = set(map(node_name, tensors))
    if missing := sorted(preserved - {node.name for node in graph_def.node}):
        raise GraphError(f"The graph has no node {', '.join(map(repr, missing))} to feed or fetch.")
    library = by_name(graph_def)
    with collector_paused():
        reading, plan, _ = read_and_plan(graph_body(graph_def), library, policy, preserved)
        _refuse_missing_ports(reading, tensors)
        taken = set(library)
        rewritten, twins = apply(reading, plan, lambda name: unused(f"{name}__{policy.low}", taken))
    _replace_functions(rewritten, twins)
    return Rewrite(rewritten, plan, reading)


def idle_overrides(rewrite: Rewrite) -> list[str]:
    """The rules of the policy that name nothing at all; an op that has no float32 port any more counts as named."""
    nodes = [node for body in rewrite.reading.bodies for node in body.nodes] if rewrite.reading else []
    scopes = LayerScopes(node.name for node in nodes)
    return [
        override.subject
        for override in rewrite.plan.idle_overrides
        if not any(
            override.matches(node.op, node.name, scopes)
            and (override.attribute or "").partition("[")[0] in ("", *node.attr)
            for node in nodes
        )
    ]


def _refuse_missing_ports(reading: Reading, tensors: Iterable[str]) -> None:
    """Refuse to feed or fetch an output that its node does not have."""
    outputs = {node.name: count for node, count in zip(reading.bodies[0].nodes, reading.outputs, strict=True)}
    for tensor in tensors:
        name, _, port = tensor.partition(":")
        if port and not (port.isdecimal() and len(port) <= LONGEST_PORT and int(port) < outputs[name]):
            raise GraphError(f"The graph has no tensor {tensor!r}: {name!r} has {outputs[name]} outputs.")


def _replace_functions(graph_def: Any, twins: Mapping[str, Any]) -> None:
    """Add the twins to the library, and drop the originals that nothing refers to any more."""
    if not twins:
        return
    graph_def.library.function.extend(twins.values())
    used = {name for pair in graph_def.library.gradient for name in (pair.function_name, pair.gradient_func)}
    used = referenced(used | mentioned(graph_def.node), by_name(graph_def))
    functions = graph_def.library.function
    replace_all(functions, [f for f in functions if f.signature.name not in twins or f.signature.name in used])
