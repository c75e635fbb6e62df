"""The chain of causes behind a paint, in words. Start with `explain`; `reason` is one link of the chain."""

from __future__ import annotations

from collections.abc import Sequence

from mixdown.core.graph import Role
from mixdown.core.paint import Paint, Stroke
from mixdown.core.policy import Level
from mixdown.core.policy_view import PolicyView
from mixdown.core.pricing.effort import readable
from mixdown.rules import Category

History = Sequence[Sequence[Stroke]]

REASONS = {
    "taint": "it follows a denied op, through {causes}",
    "match_lists": "it shares a tensor list with {causes}",
    "bridge": "it lies between {low} ops, {causes}",
    "follow": "it directly follows {causes}, which is {low}",
    "soak": "{kind} only moves values, and its neighbour {causes} {is_low}",
    "carry": "it carries a value into or out of a function, and {causes} {is_low}",
    "strip": "{kind} is not defined for {low} here",
    "match_loops": "it carries the same value as {causes}",
    "keep_tables_full": "it looks up rows of the variable that {causes} reads: the whole table would have to be cast",
    "keep_updates_full": "it computes the new value of a variable, on the way to {causes}: updates stay float32",
    "guard": "it is computed for {causes} only, which would turn its rounding into a large error",
    "meet": "{causes} reads the same value in float32, and what the two make of it meets again",
    "unite": "it must have the dtype of {causes}",
    "retarget": "it is a cast of your program, and all ops that read it, such as {causes}, are {low}",
    "conduit_rounding": "it carries a value into or out of a function, and an op that stays float32 reads it",
    "leave_alone": "with {low} copies of what it reads the whole function would move more bytes than in float32",
    "alone": "no chain of {low} ops connects it with an op on the allow list",
}
"""Stage -> the sentence for its strokes, where the reason does not lie in the lists or in the graph itself."""

LAST = "no op on the allow list follows it: final results are computed in float32"
"""The sentence of `keep_updates_full` where no variable is written."""

UNCAUSED = ("conduit_rounding", "alone", "leave_alone")
"""Stages whose strokes have no other site as their cause; without one, those of other stages come from a frozen tie."""


def part_of(part: str, whole: str) -> str:
    """Where an op went that the host has put together with others."""
    return f"{part} is not run: {whole}, or its gradient, computes what it would."


def explain(view: PolicyView, strokes: History, name: str) -> str:
    """Why the sites of an op have their paint: one line a decision, from effect to cause."""
    ops = [op for op in view.graph.ops if name in (op.name, op.label)]
    if merged := [each for each in view.graph.merged if name in each.parts and not ops]:
        ops = [view.graph.ops[each.op] for each in merged]
        return "\n".join(f"{part_of(name, op.label)}\n{explain(view, strokes, op.label)}" for op in ops)
    if not ops:
        raise KeyError(f"No op named {name!r} has a float32 port in this graph.")
    return "\n".join("\n".join(_chain(view, strokes, site)) for op in ops for site in op.sites)


def _chain(view: PolicyView, strokes: History, site: int) -> list[str]:
    """The decision on a site, then the decisions that caused it, each once."""
    lines: list[str] = []
    queue = [site]
    for here in queue:
        indent = "" if here == site else "  "
        paint = view.policy.low if _is_low(strokes, here) else "float32"
        subject = f"{view.graph.label(here)} ({view.graph.kinds[here]})"
        lines.append(f"{indent}{subject} is {paint}: {reason(view, strokes, here)}")
        queue.extend(cause for cause in causes(view, strokes, here) if cause not in queue)
    return lines


def reason(view: PolicyView, strokes: History, site: int) -> str:
    """The last decision on a site in words."""
    stroke = strokes[site][-1]
    if stroke.stage == "seed" or (stroke.stage == "taint" and not stroke.because):
        return _listed(view, site)
    if stroke.paint is Paint.FULL and (own := _obstacle(view, site)):
        return own
    if stroke.stage == "cut":
        return _cheapest(view, stroke)
    if stroke.stage == "rest":
        return _left_alone(view, strokes, site)
    if not stroke.because and stroke.stage not in UNCAUSED:
        return LAST if stroke.stage == "keep_updates_full" else _frozen_tie(view, site)
    causes = " and ".join(f"`{view.graph.label(cause)}`" for cause in stroke.because)
    kind, low = view.graph.kinds[site], view.policy.low
    kept = all(_is_low(strokes, cause) for cause in stroke.because)
    is_low = f"is {low}" if kept else f"was {low} until an op that shares its dtype made it float32"
    return REASONS[stroke.stage].format(kind=kind, low=low, causes=causes, is_low=is_low)


def _cheapest(view: PolicyView, stroke: Stroke) -> str:
    """How many bytes decided."""
    low, amount = view.policy.low, readable(stroke.margin)
    beside = "".join(f", next to `{view.graph.label(cause)}`" for cause in stroke.because)
    if stroke.paint is Paint.LOW:
        return f"it moves {amount} less than in float32 here, casts included{beside}"
    if stroke.margin > 0:
        return f"{low} would move {amount} more here, casts included{beside}"
    return f"{low} would move no less here, casts included{beside}"


def causes(view: PolicyView, strokes: History, site: int) -> tuple[int, ...]:
    """The sites behind the last decision on a site, none if it would have been the same without them."""
    stroke = strokes[site][-1]
    return () if stroke.paint is Paint.FULL and _obstacle(view, site) else stroke.because


def _is_low(strokes: History, site: int) -> bool:
    return strokes[site][-1].paint is Paint.LOW


def _obstacle(view: PolicyView, site: int) -> str:
    """What keeps a site full whatever its neighbours do, "" if nothing does."""
    graph, low = view.graph, view.policy.low
    op, its = graph.ops[graph.sites[site].op], graph.sites[site]
    if site in view.demoted:
        return view.demoted[site]
    if op.frozen is not None:
        return op.frozen
    if its.role is Role.VARIABLE_READ:
        return "it reads a variable, which stays float32"
    follows = site in view.listed_together or its.role is Role.CONVERSION  # may be low although it is on no list
    barrier = view.categories[site] is Category.BARRIER and not follows
    if barrier or site in view.kept or _is_left_out(view, site):
        return _listed(view, site)
    if not its.legal:
        return f"{op.kind} is not defined for {low} here"
    return "" if its.kernel else f"{op.kind} has no {low} kernel on its device"


def _is_left_out(view: PolicyView, site: int) -> bool:
    """Whether the level of the policy leaves an allow site in float32."""
    return view.policy.level is Level.ELEMENT_WISE_ONLY and view.categories[site] is Category.ALLOW


def _listed(view: PolicyView, site: int) -> str:
    """Where the category of a site comes from: a rule of the policy, its level, or the lists."""
    kind, category = view.graph.kinds[site], view.categories[site]
    rule = next((override for override, sites in reversed(view.selected) if site in sites), None)
    if rule is not None:
        effect = "keeps it in float32" if category is Category.BARRIER else f"makes it {rule.category.value}"
        return f"a rule of the policy ({rule.subject}) {effect}"
    if site in view.bounded:
        listed, low = view.policy.listed(kind).value, view.policy.low
        return f"{kind} is on the {listed} list, but its result is at most 1 here: ops after it may be {low}"
    if site in view.exact:
        return view.exact[site].reason
    if site in view.outer:
        return f"{kind} sums over nothing here, so it is element-wise arithmetic"
    before = view.policy.listed(kind)
    left_out = _is_left_out(view, site)
    if before is not category or left_out:
        effect = "leaves out" if category is Category.BARRIER or left_out else f"makes {category.value}"
        return f"{kind} is on the {before.value} list, which the level {view.policy.level_name} {effect}"
    return f"{kind} is on no list" if category is Category.BARRIER else f"{kind} is on the {category.value} list"


def _frozen_tie(view: PolicyView, site: int) -> str:
    tie = next(tie for tie in view.graph.ties if site in (*tie.sites, *tie.followers))
    culprit = next((other for other in tie.sites if _obstacle(view, other)), None)
    if tie.frozen or culprit is None:
        return tie.frozen or "its tensor list must stay float32"
    return f"its tensor list is also used by `{view.graph.label(culprit)}`, which stays float32"


def _left_alone(view: PolicyView, strokes: History, site: int) -> str:
    """Why no stage decided on a site that could have been low."""
    graph, low = view.graph, view.policy.low
    neighbours = (*graph.predecessors[site], *graph.successors[site])
    near = next((other for other in neighbours if _is_low(strokes, other)), None)
    match graph.sites[site].role, view.categories[site]:
        case Role.CONVERSION, _:
            return f"it is a cast of your program, and not all ops that read it are {low}"
        case Role.CONDUIT, _ if near is not None:
            return f"it carries a value into or out of a function, and not all ops that read it are {low}"
        case _, Category.INFER:
            return f"it is not between two {low} ops, so converting it would only add casts"
        case _ if near is not None:
            return f"its neighbour `{graph.label(near)}` was made {low} by a later stage"
        case _:
            return f"none of its neighbours is {low}"
