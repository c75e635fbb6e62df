"""The painting, one function a stage. Read STAGES first: it is the algorithm.

A stage looks at the view and at the canvas as the stages before left it, and returns the strokes it adds. Before the
last stage FULL on the canvas means denied, and None undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from mixdown.core.graph import Agreement, Role, Tie, walk
from mixdown.core.paint import Canvas, Paint, Stroke, Strokes
from mixdown.core.policy import Level
from mixdown.core.policy_view import PolicyView
from mixdown.rules import Category

Stage = Callable[["PolicyView", Canvas], Strokes]


def seed(view: PolicyView, _canvas: Canvas) -> Strokes:
    """Every allow site that may change is low, unless the level leaves them alone."""
    allowed = [] if view.policy.level is Level.ELEMENT_WISE_ONLY else view.sites_of(Category.ALLOW)
    return {site: Stroke(Paint.LOW, "seed") for site in allowed if view.candidates[site]}


def freeze_lists(view: PolicyView, _canvas: Canvas) -> Strokes:
    """A tensor list is denied if its handle leaves the graph, or if one op that touches it may not change.

    Ops that may not change anyway are not denied: they would only keep others from following a low neighbour.
    """
    candidates, kept = view.candidates, view.kept
    frozen = [
        tie
        for tie in view.ties(Agreement.SPREAD)
        if tie.frozen is not None or not all(candidates[site] and site not in kept for site in tie.sites)
    ]
    return {site: Stroke(Paint.FULL, "freeze_lists") for tie in frozen for site in tie.sites if candidates[site]}


def taint(view: PolicyView, canvas: Canvas) -> Strokes:
    """Deny sites are denied, and so is what they reach through infer sites and through clear sites that lead to one.

    A clear site after the last infer or deny site only moves values on: it is left to its neighbours. What is denied
    already, the elements of a frozen list, passes nothing on if the rule set says so; nor does a product, of which the
    operands are rounded like those of an allow op, even if it sums over nothing; nor what makes small numbers of
    whatever it reads.
    """
    graph = view.graph
    arithmetic = view.mask(Category.DENY, Category.INFER)
    for site in view.saturated:
        arithmetic[site] = False
    leading = walk(_where(arithmetic), graph.predecessors, view.mask(Category.CLEAR))
    stopped = view.policy.rule_set.frozen_lists_stop_taint
    taintable = [
        (arithmetic[site] or site in leading) and site not in view.outer and not (stopped and paint is Paint.FULL)
        for site, paint in enumerate(canvas)
    ]
    sources = view.sites_of(Category.DENY)
    tainted = walk(sources, graph.successors, taintable)
    strokes = {site: Stroke(Paint.FULL, "taint") for site in sources}
    excepted = view.may_follow_denied
    strokes.update(
        (site, Stroke(Paint.FULL, "taint", (cause,))) for site, cause in tainted.items() if site not in excepted
    )
    return strokes


def match_lists(view: PolicyView, canvas: Canvas) -> Strokes:
    """All sites of a tensor list are full if one of them is denied, else low if one of them is low."""
    strokes: Strokes = {}
    for tie in view.ties(Agreement.SPREAD):
        denied = _first(tie.sites, canvas, Paint.FULL)
        leader = denied if denied is not None else _first(tie.sites, canvas, Paint.LOW)
        if leader is not None:
            paint = Paint.LOW if denied is None else Paint.FULL
            strokes.update(_repaint(tie.sites, canvas, Stroke(paint, "match_lists", (leader,))))
    return strokes


def bridge(view: PolicyView, canvas: Canvas) -> Strokes:
    """Infer and clear sites with an allow site upstream and one downstream, through such sites only, are low."""
    below = below_allow(view, canvas)
    above = walk(_ends(view), view.graph.predecessors, [site in below for site in range(len(canvas))])
    return {
        site: Stroke(Paint.LOW, "bridge", (below[site], onward))
        for site, onward in above.items()
        if canvas[site] is None
    }


def below_allow(view: PolicyView, canvas: Canvas, also: Iterable[int] = ()) -> dict[int, int]:
    """The infer and clear sites that an allow site reaches through such sites only, with the site before each.

    Sites of `also` count as allow sites here.
    """
    soft, supports = view.mask(Category.INFER, Category.CLEAR), view.supports
    passable = [supports[site] and soft[site] and paint is not Paint.FULL for site, paint in enumerate(canvas)]
    return walk([*_ends(view), *sorted(also)], view.graph.successors, passable)


def _ends(view: PolicyView) -> list[int]:
    return [site for site in view.sites_of(Category.ALLOW) if view.candidates[site]]


def follow(view: PolicyView, canvas: Canvas) -> Strokes:
    """An infer site directly after a low one, and after no denied one, is low: one sweep in the host's own order."""
    if not view.policy.rule_set.infer_follows_low:
        return {}
    graph, strokes = view.graph, Strokes()
    sites = [s for s in view.sites_of(Category.INFER) if view.candidates[s] and graph.sites[s].legal]
    for site in sorted(sites, key=lambda site: (graph.ops[graph.sites[site].op].position, site)):
        if canvas[site] is not None:
            continue
        paints = {source: Paint.LOW if source in strokes else canvas[source] for source in graph.predecessors[site]}
        low = [source for source, paint in paints.items() if paint is Paint.LOW]
        if low and Paint.FULL not in paints.values():
            strokes[site] = Stroke(Paint.LOW, "follow", (low[0],))
    return strokes


def soak(view: PolicyView, canvas: Canvas) -> Strokes:
    """Clear sites next to a low site are low, and those next to them, upstream and down.

    A conduit is low if a low site feeds it, or if all its readers are low: then no op that stays float32 reads a
    rounded value.
    """
    wet = list(canvas)
    strokes = _soak_clear(view, wet)
    while carried := _carry(view, wet):
        strokes |= carried
        strokes |= _soak_clear(view, wet)
    return strokes


def _soak_clear(view: PolicyView, wet: Canvas) -> Strokes:
    """Paint the clear sites that low ones reach; `wet` gets the paint too."""
    graph, supports, candidates, clear = view.graph, view.supports, view.candidates, view.mask(Category.CLEAR)
    around = [list(chain(*both)) for both in zip(graph.predecessors, graph.successors, strict=True)]
    dry = [
        clear[index] and supports[index] and wet[index] is None and site.role is Role.PLAIN
        for index, site in enumerate(graph.sites)
    ]
    roots = [site for site, paint in enumerate(wet) if paint is Paint.LOW and candidates[site]]
    soaked = walk(roots, around, dry)
    return _paint(wet, {site: Stroke(Paint.LOW, "soak", (cause,)) for site, cause in soaked.items()})


def _carry(view: PolicyView, wet: Canvas) -> Strokes:
    """Paint the undecided ties of conduits that may be low now; `wet` gets the paint too."""
    strokes: Strokes = {}
    for tie in view.ties(Agreement.UNANIMOUS):
        undecided = [site for site in tie.sites if wet[site] is None]
        if undecided and view.graph.sites[tie.sites[0]].role is Role.CONDUIT:
            cause = _may_carry(view, wet, tie)
            strokes.update({site: Stroke(Paint.LOW, "carry", (cause,)) for site in undecided if cause is not None})
    return _paint(wet, strokes)


def _may_carry(view: PolicyView, wet: Canvas, tie: Tie) -> int | None:
    """The low site because of which a tie of conduits may be low, None if there is none."""
    graph, own = view.graph, set(tie.sites)
    if any(wet[site] is Paint.FULL or not view.candidates[site] or site in view.kept for site in tie.sites):
        return None
    sources = [site for member in tie.sites for site in graph.predecessors[member] if site not in own]
    readers = [site for member in tie.sites for site in graph.successors[member] if site not in own]
    sinks = [site for site in readers if not is_unread(view, site)]
    low = [site for site in sources if wet[site] is Paint.LOW]
    if low and not any(_stays_full(view, wet, site) for site in sources):
        return low[0]
    return sinks[0] if sinks and all(wet[site] is Paint.LOW for site in sinks) else None


def _stays_full(view: PolicyView, wet: Canvas, site: int) -> bool:
    """Whether a site computes in float32 whatever happens: what it makes is not to be rounded on the way."""
    decided = wet[site] is Paint.FULL or not view.candidates[site] or view.categories[site] is Category.BARRIER
    return decided and view.graph.sites[site].role is not Role.CONDUIT


def is_unread(view: PolicyView, site: int) -> bool:
    """Whether a site only moves a value that no op reads: then its paint does not matter."""
    return view.categories[site] is Category.CLEAR and view.supports[site] and not view.graph.successors[site]


def strip(view: PolicyView, canvas: Canvas) -> Strokes:
    """An allow site whose op is not defined for the low dtype is full after all."""
    sites = view.graph.sites
    return {
        site: Stroke(Paint.FULL, "strip")
        for site in view.sites_of(Category.ALLOW)
        if canvas[site] is Paint.LOW and not sites[site].legal
    }


def match_loops(view: PolicyView, canvas: Canvas) -> Strokes:
    """Sites that carry one value around a loop or through a call are low only if all of them are."""
    strokes: Strokes = {}
    for tie in view.ties(Agreement.UNANIMOUS):
        everyone = (*tie.sites, *tie.followers)
        dissenter = None if tie.frozen is None else tie.sites[0]
        if dissenter is None:
            unwilling = [site for site in tie.sites if canvas[site] is not Paint.LOW]
            unable = [site for site in tie.followers if not view.candidates[site] or site in view.kept]
            dissenter = next(iter(unwilling + unable), None)
        paint, leader = (Paint.LOW, tie.sites[0]) if dissenter is None else (Paint.FULL, dissenter)
        low = [site for site in everyone if canvas[site] is Paint.LOW]
        affected = everyone if dissenter is None else low
        because = (leader,) if tie.frozen is None else ()
        strokes.update(_repaint(affected, canvas, Stroke(paint, "match_loops", because)))
    return strokes


def retarget(view: PolicyView, canvas: Canvas) -> Strokes:
    """A cast of the program makes the low dtype directly if all its readers are low."""
    graph, supports = view.graph, view.supports
    return {
        index: Stroke(Paint.LOW, "retarget", (graph.successors[index][0],))
        for index, site in enumerate(graph.sites)
        if site.role is Role.CONVERSION
        and supports[index]
        and canvas[index] is None
        and index not in view.kept
        and graph.successors[index]
        and all(canvas[consumer] is Paint.LOW for consumer in graph.successors[index])
    }


def rest(_view: PolicyView, canvas: Canvas) -> Strokes:
    """What no stage decided stays full."""
    return {site: Stroke(Paint.FULL, "rest") for site, paint in enumerate(canvas) if paint is None}


STAGES: tuple[Stage, ...] = (
    seed,
    freeze_lists,
    taint,
    match_lists,
    bridge,
    follow,
    soak,
    strip,
    match_lists,
    match_loops,
    retarget,
    rest,
)


def _paint(canvas: Canvas, strokes: Strokes) -> Strokes:
    for site, stroke in strokes.items():
        canvas[site] = stroke.paint
    return strokes


def _where(mask: Sequence[bool]) -> list[int]:
    return [index for index, true in enumerate(mask) if true]


def _first(sites: Iterable[int], canvas: Canvas, paint: Paint) -> int | None:
    return next((site for site in sites if canvas[site] is paint), None)


def _repaint(sites: Iterable[int], canvas: Canvas, stroke: Stroke) -> Strokes:
    return {site: stroke for site in sites if canvas[site] is not stroke.paint}
