"""The chain of causes behind a paint, in words. Start with `explain`; `reason` is one link of the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.core.graph import Role
from mixdown.core.paint import Paint
from mixdown.rules import Category

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixdown.core.paint import Stroke
    from mixdown.core.policy_view import Scene

    History = Sequence[Sequence[Stroke]]

REASONS = {
    "taint": "it follows a denied op, through {causes}",
    "match_lists": "it shares a tensor list with {causes}",
    "bridge": "it lies between low ops, from {causes}",
    "follow": "it directly follows {causes}, which is low",
    "soak": "{kind} only moves values, and its neighbour {causes} {is_low}",
    "carry": "it carries a value into or out of a function, and {causes} {is_low}",
    "strip": "{kind} is not defined for {low} here",
    "match_loops": "it carries the same value as {causes}",
    "spare_tables": "it looks rows up in the variable that {causes} yields: the whole table would have to be cast",
    "spare_updates": "no allow op comes after it: it computes what a variable becomes, on the way to {causes}",
    "unite": "it must have the precision of {causes}",
    "retarget": "it is a cast that was there already, and all its consumers, such as {causes}, are low",
}
"""Stage -> the sentence for its strokes, where the reason does not lie in the lists or in the graph itself."""


UNCAUSED = {
    "worth": "the graph as a whole is not predicted to gain enough to be changed",
    "digits": "it carries a value into or out of a function, and an op that stays float32 reads it",
    "alone": "no chain of low ops would lead from an allow op to it",
    "spare_updates": "no allow op comes after it: it puts the last touch to a result",
}
"""The same for strokes that have no other site as their cause."""


def explain(scene: Scene, strokes: History, name: str) -> str:
    """Why the sites of an op have their paint: one line a decision, from effect to cause."""
    ops = [op for op in scene.graph.ops if name in (op.name, op.label)]
    if not ops:
        raise KeyError(f"No op named {name!r} has a float32 port in this graph.")
    return "\n".join("\n".join(_chain(scene, strokes, site)) for op in ops for site in op.sites)


def _chain(scene: Scene, strokes: History, site: int) -> list[str]:
    """The decision on a site, then the decisions that caused it, each once."""
    lines: list[str] = []
    queue = [site]
    for here in queue:
        indent = "" if here == site else "  "
        paint = scene.policy.low if _is_low(strokes, here) else "float32"
        subject = f"{scene.graph.label(here)} ({scene.graph.kinds[here]})"
        lines.append(f"{indent}{subject} is {paint}: {reason(scene, strokes, here)}")
        queue.extend(cause for cause in causes(scene, strokes, here) if cause not in queue)
    return lines


def reason(scene: Scene, strokes: History, site: int) -> str:
    """The last decision on a site in words."""
    stroke = strokes[site][-1]
    if stroke.stage == "seed" or (stroke.stage == "taint" and not stroke.because):
        return _listed(scene, site)
    if stroke.paint is Paint.FULL and (own := _obstacle(scene, site)):
        return own
    if stroke.stage == "cut":
        return _cheapest(scene, stroke)
    if stroke.stage == "rest":
        return _left_alone(scene, strokes, site)
    if stroke.stage == "freeze_lists" or not stroke.because:
        return UNCAUSED.get(stroke.stage) or _frozen_tie(scene, site)
    causes = " and ".join(f"`{scene.graph.label(cause)}`" for cause in stroke.because)
    is_low = "is low" if all(_is_low(strokes, cause) for cause in stroke.because) else "was low before its tie undid it"
    kind, low = scene.graph.kinds[site], scene.policy.low
    return REASONS[stroke.stage].format(kind=kind, low=low, causes=causes, is_low=is_low)


def _cheapest(scene: Scene, stroke: Stroke) -> str:
    """Which bytes decided."""
    low, bytes_count = scene.policy.low, scene.prices.unit == "bytes"
    beside = "".join(f", beside `{scene.graph.label(cause)}`" for cause in stroke.because)
    amount = readable(stroke.spared, BYTES if bytes_count else TIMES)
    where = f"on the machine {scene.machine.name}" if scene.machine else "here"
    if stroke.paint is Paint.LOW:
        return f"that {'moves' if bytes_count else 'takes'} {amount} less than float32 {where}, casts included{beside}"
    verb = "move" if bytes_count else "take"
    if stroke.spared:
        return f"{low} would {verb} {amount} more {where}, casts included{beside}"
    return f"{low} would {verb} no less {where}, casts included{beside}"


BYTES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("bytes", 1))
TIMES = (("ms", 10**9), ("us", 10**6), ("ns", 10**3), ("ps", 1))


def readable(amount: int, units: Sequence[tuple[str, int]] = BYTES) -> str:
    """An amount for people, in the unit that suits it."""
    name, size = next(((name, size) for name, size in units if amount >= size), units[-1])
    return f"{amount / size:.3g} {name}"


def causes(scene: Scene, strokes: History, site: int) -> tuple[int, ...]:
    """The sites behind the last decision on a site, none if it would have been the same without them."""
    stroke = strokes[site][-1]
    return () if stroke.paint is Paint.FULL and _obstacle(scene, site) else stroke.because


def _is_low(strokes: History, site: int) -> bool:
    return strokes[site][-1].paint is Paint.LOW


def _obstacle(scene: Scene, site: int) -> str:
    """What keeps a site full whatever its neighbours do, "" if nothing does."""
    graph, low = scene.graph, scene.policy.low
    op, its = graph.ops[graph.sites[site].op], graph.sites[site]
    if site in scene.demoted:
        return scene.demoted[site]
    if op.frozen is not None:
        return op.frozen
    if its.role is Role.VARIABLE_READ:
        return "it reads a variable, which stays float32"
    follows = site in scene.listed_together or its.role is Role.CONVERSION  # may be low although it is on no list
    if site in scene.kept or (scene.categories[site] is Category.BARRIER and not follows):
        return _listed(scene, site)
    if not its.legal:
        return f"{op.kind} is not defined for {low} here"
    return "" if its.kernel else f"{op.kind} has no {low} kernel on its device"


def _listed(scene: Scene, site: int) -> str:
    """Where the category of a site comes from: a rule of the policy, its level, or the lists."""
    kind, category = scene.graph.kinds[site], scene.categories[site]
    rule = next((override for override, sites in reversed(scene.selected) if site in sites), None)
    if rule is not None:
        effect = "keeps it in float32" if category is Category.BARRIER else f"makes it {rule.category.value}"
        return f"a rule of the policy ({rule.subject}) {effect}"
    if site in scene.harmless:
        return f"{kind} is on the {scene.policy.listed(kind).value} list; of a negated square it harms nothing after it"
    before = scene.policy.listed(kind)
    if before is not category:
        effect = "leaves out" if category is Category.BARRIER else f"makes {category.value}"
        return f"{kind} is on the {before.value} list, which the level {scene.policy.level_name} {effect}"
    return f"{kind} is on no list" if category is Category.BARRIER else f"{kind} is on the {category.value} list"


def _frozen_tie(scene: Scene, site: int) -> str:
    tie = next(tie for tie in scene.graph.ties if site in (*tie.sites, *tie.followers))
    culprit = next((other for other in tie.sites if _obstacle(scene, other)), None)
    if tie.frozen or culprit is None:
        return tie.frozen or "its tensor list must stay float32"
    return f"its tensor list is also used by `{scene.graph.label(culprit)}`, which stays float32"


def _left_alone(scene: Scene, strokes: History, site: int) -> str:
    """Why no stage touched a site although it could have been low."""
    graph = scene.graph
    neighbours = (*graph.predecessors[site], *graph.successors[site])
    low = next((other for other in neighbours if _is_low(strokes, other)), None)
    match graph.sites[site].role, scene.categories[site]:
        case Role.CONVERSION, _:
            return "it is a cast that was there already, and not all its consumers are low"
        case Role.CONDUIT, _ if low is not None:
            return "it carries a value into or out of a function, and not all that read it are low"
        case _, Category.INFER:
            return "no chain of infer and clear ops leads from an allow op to it and on to another"
        case _ if low is not None:
            return f"its neighbour `{graph.label(low)}` became low too late for it to follow"
        case _:
            return "no neighbour of it is low"
