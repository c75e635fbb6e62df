"""What stays full because a small error in it becomes a large one: `guard` and `meet`, stages of `optimal`.

Both say nothing about bytes: a compiler fuses what they keep full with what reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mixdown.core.graph import Role
from mixdown.core.paint import Canvas, Paint, Stroke, Strokes
from mixdown.core.policy_view import PolicyView
from mixdown.rules import Category

FARTHEST = 200
"""So many sites are looked at to see whether two readers of a value meet again; if more lie between, they do."""


def guard(view: PolicyView, canvas: Canvas) -> Strokes:
    """What only steep functions read is full: after an exponential, an absolute error is a relative one.

    Ops that are full already may read it too.
    """
    graph, traits = view.graph, view.traits
    kinds = graph.kinds
    plain = traits.elementwise | traits.views | traits.selections
    queue = [site for site, kind in enumerate(kinds) if kind in traits.steep and canvas[site] is Paint.FULL]
    full = set(queue)
    strokes: Strokes = {}
    for here in queue:
        for site in graph.predecessors[here]:
            if site in full or canvas[site] is not None or kinds[site] not in plain or not _computes(view, site):
                continue
            if all(after in full or canvas[after] is Paint.FULL for after in graph.successors[site]):
                full.add(site)
                queue.append(site)
                strokes[site] = Stroke(Paint.FULL, "guard", (here,))
    return strokes


def meet(view: PolicyView, canvas: Canvas) -> Strokes:
    """A reader of a value is full if another one is, and if what the two make of it meets again in a full op.

    Otherwise one way rounds the value and the other does not, also where a compiler leaves out needless rounding, and
    what is left of a difference is the rounding: a loss near 0 comes out negative. The cut keeps to this as well.
    """
    if not view.policy.rule_set.readers_that_meet_agree:
        return {}
    graph, painted = view.graph, list(canvas)
    strokes: Strokes = {}
    queue = [index for index in range(len(graph.tensors)) if _is_shared(view, index)]
    for index in queue:
        for site, cause in split_readers(view, painted, graph.tensors[index].consumers).items():
            painted[site] = Paint.FULL
            strokes[site] = Stroke(Paint.FULL, "meet", (cause,))
            queue.extend(index for index in graph.touched[site] if _is_shared(view, index))
    return strokes


def _is_shared(view: PolicyView, index: int) -> bool:
    """Whether several sites read a value that was computed: weights and constants are rounded wherever that pays."""
    tensor = view.graph.tensors[index]
    return len(tensor.consumers) > 1 and view.graph.sites[tensor.site].role is not Role.VARIABLE_READ


def split_readers(view: PolicyView, canvas: Sequence[Paint | None], readers: Iterable[int]) -> dict[int, int]:
    """The readers of a value that are not full although one that they meet again is, with that one."""
    readers = set(readers)
    full = [site for site in readers if canvas[site] is Paint.FULL and _computes(view, site)]
    others = [site for site in readers if canvas[site] is not Paint.FULL and _computes(view, site)]
    if not full or not others:
        return {}
    beyond = _onward(view, full, lambda site: canvas[site] is Paint.FULL)
    found = {}
    for site in sorted(others):
        reached = _onward(view, [site], lambda _: True)
        if any(canvas[here] is Paint.FULL for here in reached & beyond) or min(len(reached), len(beyond)) >= FARTHEST:
            found[site] = min(full)
    return found


def _onward(view: PolicyView, sites: list[int], enter: Callable[[int], bool]) -> set[int]:
    """These sites and what they reach without passing an allow op or leaving the function.

    A backward pass is not entered: what it takes of a forward pass is a factor of a derivative, not a part of a sum.
    Nor is what is only looked at for Inf and NaN: digits do not matter there.
    """
    queue, seen, its = list(sites), set(sites), view.graph.sites
    for here in queue:
        if len(seen) >= FARTHEST:
            break
        for site in view.graph.successors[here]:
            enters_backward = its[site].role is Role.DERIVATIVE and its[here].role is not Role.DERIVATIVE
            if site in seen or enters_backward or site in view.only_checked:
                continue
            if _computes(view, site) and enter(site):
                seen.add(site)
                queue.append(site)
    return seen


def _computes(view: PolicyView, site: int) -> bool:
    """Whether a site does arithmetic or moves values within a function, and rounds only if it is low."""
    role = view.graph.sites[site].role
    return role in (Role.PLAIN, Role.DERIVATIVE) and view.categories[site] is not Category.ALLOW
