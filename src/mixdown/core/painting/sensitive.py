"""What stays full because a small error in it becomes a large one: `guard` and `meet`, stages of `optimal`.

Both say nothing about bytes: a compiler fuses what they keep full with what reads it.
"""

from __future__ import annotations

from mixdown.core.graph import Role, Tensor
from mixdown.core.paint import Canvas, Paint, Stroke, Strokes
from mixdown.core.policy_view import PolicyView

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
            if site in full or canvas[site] is not None or kinds[site] not in plain or not view.computing[site]:
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
    reached: dict[int, set[int]] = {}
    # Weights and constants are not computed: they are rounded wherever that pays.
    computed = [site.role is not Role.VARIABLE_READ for site in graph.sites]
    queue = [tensor for tensor in graph.tensors if len(tensor.consumers) > 1 and computed[tensor.site]]
    for tensor in queue:
        for site, cause in _split_readers(view, painted, tensor, reached).items():
            painted[site] = Paint.FULL
            strokes[site] = Stroke(Paint.FULL, "meet", (cause,))
            touched = [graph.tensors[index] for index in graph.touched[site]]
            queue.extend(tensor for tensor in touched if computed[tensor.site])
    return strokes


def _split_readers(view: PolicyView, canvas: Canvas, tensor: Tensor, reached: dict[int, set[int]]) -> dict[int, int]:
    """The readers of a value that are not full although one that they meet again is, with that one.

    Args:
        view: the graph.
        canvas: the paints so far.
        tensor: the value.
        reached: what is known of what sites reach; what is found is added.
    """
    if not _disagree(canvas, tensor):
        return {}
    readers = [site for site in set(tensor.consumers) if view.computing[site]]
    full = [site for site in readers if canvas[site] is Paint.FULL]
    others = [site for site in readers if canvas[site] is not Paint.FULL]
    if not full or not others:
        return {}
    beyond = _reached(view, full, canvas)
    found = {}
    for site in sorted(others):
        if site not in reached:
            reached[site] = _reached(view, [site])
        if (
            not beyond.isdisjoint(reached[site]) or min(len(reached[site]), len(beyond)) >= FARTHEST
        ):  # all beyond is full
            found[site] = min(full)
    return found


def _disagree(canvas: Canvas, tensor: Tensor) -> bool:
    """Whether some readers of a value are full, and some are not."""
    return len({canvas[site] is Paint.FULL for site in tensor.consumers}) > 1


def _reached(view: PolicyView, sites: list[int], full_on: Canvas | None = None) -> set[int]:
    """These sites and what they reach without passing an allow op or leaving the function.

    Args:
        view: the graph.
        sites: where to begin.
        full_on: the canvas on which all that is reached must be full, None if it need not be.
    """
    queue, seen, onward = list(sites), set(sites), view.onward
    for here in queue:
        if len(seen) >= FARTHEST:
            break
        for site in onward[here]:
            if site not in seen and (full_on is None or full_on[site] is Paint.FULL):
                seen.add(site)
                queue.append(site)
    return seen
