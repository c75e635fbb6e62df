"""What differs between two reports: dtypes, casts and ops. Start with `compare`."""

from collections import Counter
from dataclasses import dataclass

from mixdown.reports.model import CastRow, GraphReport, OpRow, ReportData, SiteRow, Totals

GraphKey = tuple[str, int]  # name, and how many graphs of that name stand before: a function may be traced repeatedly
SiteKey = tuple[str, str, str]  # function, op and attribute
CastKey = tuple[str, str]  # tensor and direction


@dataclass(frozen=True)
class Change:
    """One site whose dtype changed, with both reasons."""

    op: str
    function: str
    kind: str
    attribute: str
    dtype_before: str
    dtype_after: str
    reason_before: str
    reason_after: str


@dataclass(frozen=True)
class GraphComparison:
    """One graph in both reports."""

    name: str
    before: Totals
    after: Totals
    changes: tuple[Change, ...]
    casts_added: tuple[CastRow, ...]
    casts_removed: tuple[CastRow, ...]
    ops_added: tuple[str, ...]
    ops_removed: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not (self.changes or self.casts_added or self.casts_removed or self.ops_added or self.ops_removed)


def compare(before: ReportData, after: ReportData) -> tuple[GraphComparison, ...]:
    """Every graph that both reports hold, in the order of the later one.

    Graphs are paired by name; two reports of one graph each are compared whatever the names.
    """
    first, second = _keyed(before, after)
    return tuple(_compare_graphs(first[key], graph) for key, graph in second.items() if key in first)


def unpaired(before: ReportData, after: ReportData) -> tuple[list[str], list[str]]:
    """The names of the graphs that only the earlier report holds, and of those that only the later one does."""
    first, second = _keyed(before, after)
    return [key[0] for key in first if key not in second], [key[0] for key in second if key not in first]


def _keyed(*reports: ReportData) -> list[dict[GraphKey, GraphReport]]:
    """The graphs of each report by the keys that pair them."""
    if all(len(report.graphs) == 1 for report in reports):
        return [{("", 0): report.graphs[0]} for report in reports]
    out = []
    for report in reports:
        seen: Counter[str] = Counter()
        keyed = {}
        for graph in report.graphs:
            keyed[graph.name, seen[graph.name]] = graph
            seen[graph.name] += 1
        out.append(keyed)
    return out


def _compare_graphs(before: GraphReport, after: GraphReport) -> GraphComparison:
    old_casts, new_casts = _casts(before), _casts(after)
    old_ops, new_ops = (dict.fromkeys(op.label for op in graph.ops) for graph in (before, after))
    return GraphComparison(
        name=after.name,
        before=before.totals,
        after=after.totals,
        changes=tuple(_changes(_sites(before), _sites(after))),
        casts_added=tuple(cast for key, cast in new_casts.items() if key not in old_casts),
        casts_removed=tuple(cast for key, cast in old_casts.items() if key not in new_casts),
        ops_added=tuple(label for label in new_ops if label not in old_ops),
        ops_removed=tuple(label for label in old_ops if label not in new_ops),
    )


def _changes(old: dict[SiteKey, tuple[OpRow, SiteRow]], new: dict[SiteKey, tuple[OpRow, SiteRow]]) -> list[Change]:
    return [
        Change(op.name, op.function, op.kind, site.attribute, was.dtype, site.dtype, was.reason, site.reason)
        for key, (op, site) in new.items()
        if key in old and (was := old[key][1]).dtype != site.dtype
    ]


def _sites(graph: GraphReport) -> dict[SiteKey, tuple[OpRow, SiteRow]]:
    return {(op.function, op.name, site.attribute): (op, site) for op in graph.ops for site in op.sites}


def _casts(graph: GraphReport) -> dict[CastKey, CastRow]:
    """Casts by tensor and direction. Functions may have tensors of the same name, so the key names the function."""
    return {(f"{graph.ops[cast.op].function}\0{cast.tensor}", cast.to): cast for cast in graph.casts}
