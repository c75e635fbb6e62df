"""What a report says in text, as lines and tables that are not yet laid out. Start with `blocks`.

`obstacles` says why parts of a graph stay in float32, in short, what a user can change first.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

from mixdown.core.pricing.effort import FLOPS, Effort, readable
from mixdown.reports.model import GraphReport, ReportData, ScalerReport, SiteRow, Totals

MOST_ROWS = 10
"""The longest that tables get whose rows are sorted by weight. The page and the JSON have all rows."""

MOST_REASONS = 6
UNITS = ("B", "KB", "MB", "GB", "TB")

HEADLINES = {
    "match_lists": "it shares a tensor list with an op that stays in float32",
    "match_loops": "it carries the same value as a site that stays in float32",
    "cut": "16 bits would move no less here, casts included",
}
"""Stage -> the reason in short, for decisions whose reasons differ in names or amounts only."""

CHANGEABLE = ("cut", "alone", "strip")
"""Stages that decide by shapes and kernels, which a user can change, as well as by lists and rules."""

_OP_NAMES = re.compile("`[^`]*`(?: and `[^`]*`)*")


class Table(NamedTuple):
    """Rows under headings."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


Block = str | Table


def blocks(report: ReportData) -> Iterator[Block]:
    """The lines and tables of a report, from top to bottom."""
    yield report.title
    if report.versions:
        yield ", ".join(f"{name} {version}" for name, version in report.versions.items())
    yield from (f"Note: {note}" for note in report.notes)
    yield from (f"Warning: {warning}" for warning in report.warnings)
    yield from _one_graph(report.graphs[0]) if len(report.graphs) == 1 else _many_graphs(report)
    yield from _trials(report)
    yield from _advice(report)
    for scaler in report.scalers:
        yield from _scaler(scaler)


def size(count: int) -> str:
    """A number of bytes with its unit, such as "1.5 MB"."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(UNITS) - 1:  # noqa: PLR2004 - the step from unit to unit
        value, unit = value / 1000, unit + 1
    return f"{value:.{int(unit > 0)}f} {UNITS[unit]}"


def moved(totals: Totals) -> str:
    """How many bytes casts move, and how many casts have an unknown size."""
    unknown = f"{totals.unsized_casts} of unknown size"
    if totals.casts and totals.casts == totals.unsized_casts:
        return unknown
    return size(totals.bytes) + (f", {unknown}" if totals.unsized_casts else "")


def summary(graph: GraphReport) -> list[str]:
    """How much of a graph's work runs in 16 bits, what that saves, on which ops, and why the others do not."""
    low, lowered = graph.low, graph.low_ops
    down = sum(cast.to == low for cast in graph.casts)
    casts = f"{len(graph.casts)} casts ({down} to {low}, {len(graph.casts) - down} back)"
    return [
        *headline(graph.effort, low),
        f"{len(lowered)} of {len(graph.ops)} float32 ops run in {low}, with {casts}.",
        f"in {low}: {_counted(Counter(op.kind for op in lowered))}",
        *_merged(graph),
        "The others stay in float32, because:",
        *(f"  {each.sites:6} {size(each.bytes):>9}  {each.reason}" for each in obstacles(graph)[:MOST_REASONS]),
    ]


def headline(effort: Effort, low: str) -> Iterator[str]:
    """The work of a run in numbers, against float32."""
    if effort.flops:
        done, whole = readable(effort.low_flops, FLOPS), readable(effort.flops, FLOPS)
        yield f"{effort.share} of the matrix arithmetic runs in {low}: {done} of {whole} a run."
    if effort.float32_bytes:
        yield f"Bytes moved: {against(effort.bytes, effort.float32_bytes)}."
    if effort.float32_activations:
        against_float32 = against(effort.activations, effort.float32_activations)
        yield f"Activations kept for the backward pass: {against_float32}."
    yield from map(str, effort.predicted)


def against(mixed: int, float32: int) -> str:
    """An amount of bytes beside that of float32, such as "0.62 of float32 (84 MB instead of 136 MB)"."""
    return f"{mixed / float32:.2f} of float32 ({size(mixed)} instead of {size(float32)})"


def _merged(graph: GraphReport) -> Iterator[str]:
    """What takes the place of ops that are listed nowhere else."""
    norms = [each for each in graph.merged if len(each.parts) > 1]
    if norms:
        kinds = _counted(Counter(graph.ops[each.op].kind for each in norms))
        yield f"{kinds}, with gradients, in place of {sum(len(each.parts) for each in norms)} ops spelled out."
    if variances := len(graph.merged) - len(norms):
        yield f"Variances computed in one pass over the values with their means: {variances}."


def _counted(kinds: Counter[str]) -> str:
    named = [f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))]
    more = f" and {len(named) - MOST_REASONS} more kinds" if len(named) > MOST_REASONS else ""
    return ", ".join(named[:MOST_REASONS]) + more


def _one_graph(graph: GraphReport) -> Iterator[Block]:
    if not graph.rewritten:
        yield f"This {graph.kind} is left as it is: {graph.reason}."
    if not graph.ops:
        return
    yield from summary(graph)
    yield _cost_of_casts(graph)
    yield _totals_table("By layer", "layer", graph.by_layer())
    yield _totals_table("By kind", "kind", graph.by_kind())
    if graph.casts:
        largest = sorted(graph.casts, key=lambda cast: (-(cast.bytes or 0), cast.tensor))
        rows = [(each.tensor, each.to, "unknown" if each.bytes is None else size(each.bytes)) for each in largest]
        yield Table(_title("Casts", len(rows)), ("tensor", "to", "moves"), rows[:MOST_ROWS])


def _cost_of_casts(graph: GraphReport) -> str:
    if graph.casts and graph.is_compiled:
        return (
            f"XLA fuses most of the casts; if it fused none, they would read and write {moved(graph.totals)} per run."
        )
    return f"Per run the casts read and write {moved(graph.totals)}."


def _totals_table(title: str, what: str, parts: dict[str, Totals]) -> Table:
    rows = [
        (
            name or "(in no layer)",
            f"{readable(each.flops, FLOPS)}, {Effort(each.flops, each.low_flops).share}" if each.flops else "",
            size(each.float32_bytes),
            f"{each.low_ops} of {each.ops}",
            f"{each.casts}, {moved(each)}" if each.casts else "",
        )
        for name, each in parts.items()
    ]
    headings = (what, "arithmetic, in 16 bits", "bytes in float32", "16-bit ops", "casts")
    return Table(_title(title, len(rows)), headings, rows[:MOST_ROWS])


def _title(title: str, rows: int) -> str:
    return f"{title}, the first {MOST_ROWS} of {rows}" if rows > MOST_ROWS else title


def _many_graphs(report: ReportData) -> Iterator[Block]:
    if not report.graphs:
        yield "No function and no session was rewritten or looked at."
        return
    kinds = Counter(graph.kind for graph in report.graphs)
    rewritten = sum(graph.rewritten for graph in report.graphs)
    named = " and ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in sorted(kinds.items()))
    yield f"{named}: {rewritten} rewritten, {len(report.graphs) - rewritten} left alone."
    yield Table(
        "Graphs",
        ("name", "kind", "arithmetic in 16 bits", "bytes", "16-bit ops", "casts", "what happened"),
        list(map(_graph_row, report.graphs)),
    )


def _graph_row(graph: GraphReport) -> tuple[str, ...]:
    totals, effort = graph.totals, graph.effort
    happened = f"rewritten to {graph.low}" if graph.rewritten else f"left alone: {graph.reason}"
    bytes_moved = f"{effort.bytes / effort.float32_bytes:.2f} of float32" if effort.float32_bytes else ""
    ops, casts = f"{totals.low_ops} of {totals.ops}", f"{totals.casts}, {moved(totals)}" if totals.casts else ""
    return graph.name, graph.kind, effort.share, bytes_moved, ops, casts, happened


def _trials(report: ReportData) -> Iterator[Block]:
    for graph in report.graphs:
        if graph.trials:
            rows = [(trial.name, *trial.shown) for trial in graph.trials]
            headings = ("candidate", "a call", "of float32", "95 % interval", "timed calls")
            yield Table(f"Tuning of {graph.name}: {graph.tuned or 'going on'}", headings, rows)


def _advice(report: ReportData) -> Iterator[Block]:
    found = dict.fromkeys(advice for graph in report.graphs for advice in graph.advice)
    if found:
        rows = [(each.layer, each.dimension, str(each.size), str(each.better)) for each in found]
        title = "Tensor Cores want powers of two below 256, and multiples of 8 above"
        yield Table(_title(title, len(rows)), ("layer", "dimension", "size", "better"), rows[:MOST_ROWS])


def _scaler(scaler: ScalerReport) -> Iterator[Block]:
    yield (
        f"Loss scale of {scaler.name}: {scaler.loss_scale:g} after {scaler.steps} steps, "
        f"of which {scaler.skipped_steps} were skipped."
    )
    if scaler.timeline:
        yield "It was " + ", ".join(f"{scale:g} from step {step}" for step, scale in scaler.timeline[-MOST_ROWS:]) + "."
    if scaler.skips:
        rows = [
            (str(skip.step), ", ".join(f"{name} ({held})" for name, held in skip.variables) or "not recorded")
            for skip in scaler.skips[-MOST_ROWS:]
        ]
        more = f", the last {len(rows)} of {scaler.skipped_steps}" if scaler.skipped_steps > len(rows) else ""
        yield Table(f"Skipped steps{more}", ("step", "variables with gradients that are not finite"), rows)


class Obstacle(NamedTuple):
    """One reason, how many sites it keeps in float32, and how many bytes the ops move that have one."""

    reason: str
    sites: int
    bytes: int
    changeable: bool  # by a policy, or by other shapes


def obstacles(graph: GraphReport) -> list[Obstacle]:
    """The reasons for which sites stay in float32: those that a user can change first, then by bytes."""
    root = cache(partial(_root, graph))
    found: dict[str, Obstacle] = {}
    for index, op in enumerate(graph.ops):
        for position, site in enumerate(op.sites):
            if site.dtype == graph.low:
                continue
            reason, changeable = _short(site, partial(root, (index, position)))
            before = found.get(reason, Obstacle(reason, 0, 0, changeable))
            moved = before.bytes + op.bytes // len(op.sites)
            found[reason] = Obstacle(reason, before.sites + 1, moved, before.changeable or changeable)
    return sorted(found.values(), key=lambda each: (not each.changeable, -each.bytes, -each.sites, each.reason))


def _short(site: SiteRow, root: Callable[[], str]) -> tuple[str, bool]:
    """The reason of a site in short, and whether a user can change it; `root` is the kind at which its causes begin."""
    if site.stage == "taint" and site.because:
        return f"it follows a denied op ({root()})", True
    headline = HEADLINES.get(site.stage) if site.because or site.stage == "cut" else None
    ruled = site.category == "deny" or site.reason.startswith("a rule of the policy")
    return headline or _OP_NAMES.sub("...", site.reason), ruled or site.stage in CHANGEABLE


def _root(graph: GraphReport, start: tuple[int, int]) -> str:
    """The kind of the op at which the chain of causes of a site begins."""
    here, seen = start, {start}
    while True:
        op = graph.ops[here[0]]
        site = op.sites[here[1]]
        causes = [each for each in zip(site.because, site.because_of, strict=True) if each not in seen]
        if not causes:
            return op.kind
        here = causes[0]
        seen.add(here)
