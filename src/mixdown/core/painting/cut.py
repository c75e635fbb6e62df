"""The cheapest assignment: every site that may be either is decided by one minimum cut. Start with `cut`.

Sites that must agree are one vertex. What is low already is the source, what cannot be low is the sink. Staying full
costs an op the bytes it would have saved; a tensor whose two ends differ costs a cast, once for all its readers, which
takes an auxiliary vertex per direction. Of equally cheap assignments the one with the fewest low sites wins.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import NamedTuple

from mixdown.core.disjoint_sets import DisjointSets
from mixdown.core.graph import Role, Tensor, walk
from mixdown.core.paint import Canvas, Paint, Stroke, Strokes
from mixdown.core.painting.conduit_rounding import rounding_conduits
from mixdown.core.painting.min_cut import SINK, SOURCE, Cut, Network
from mixdown.core.painting.sensitive import meet
from mixdown.core.painting.stages import below_allow
from mixdown.core.policy import Level
from mixdown.core.policy_view import PolicyView
from mixdown.rules import Category

ALWAYS = 1 << 200
"""More than anything costs: an arc that no cheapest cut severs."""


def unite(view: PolicyView, canvas: Canvas) -> Strokes:
    """Tied sites of which one cannot be low are full; of which one is low, low."""
    groups = _groups(view)
    free = _free(view, canvas) if groups else []
    strokes: Strokes = {}
    for group in groups:
        culprit = next((site for site in group if canvas[site] is not Paint.LOW and not free[site]), None)
        leader = culprit if culprit is not None else next((s for s in group if canvas[s] is Paint.LOW), None)
        if leader is not None:
            stroke = Stroke(Paint.LOW if culprit is None else Paint.FULL, "unite", (leader,))
            strokes.update((s, stroke) for s in group if s != leader and canvas[s] is not stroke.paint)
    frozen = [tie for tie in view.graph.ties if tie.frozen is not None]
    strokes.update((s, Stroke(Paint.FULL, "unite")) for tie in frozen for s in (*tie.sites, *tie.followers))
    return strokes


def cut(view: PolicyView, canvas: Canvas) -> Strokes:
    """Every site that may be either gets the paint that moves the fewest bytes overall."""
    refused: Strokes = {}
    while True:
        settled: Canvas = [Paint.FULL if site in refused else paint for site, paint in enumerate(canvas)]
        problem = Problem(view, settled)
        if not problem.vertices:
            return refused
        side = problem.solve().source_side
        final: Canvas = [paint or Paint.FULL for paint in settled]
        for site, vertex in problem.vertices.items():
            final[site] = Paint.LOW if vertex in side else Paint.FULL
        faults = meet(view, final)
        faults |= dict.fromkeys(rounding_conduits(view, final), Stroke(Paint.FULL, "conduit_rounding"))
        faults |= dict.fromkeys(_unconnected(view, final), Stroke(Paint.FULL, "alone"))
        if not faults:
            break
        refused |= faults
    causes = _causes(view, problem, final)
    margin = problem.margin(final)
    decided = {
        site: Stroke(Paint.LOW if vertex in side else Paint.FULL, "cut", causes.get(site, ()), margin[vertex])
        for site, vertex in problem.vertices.items()
    }
    return decided | refused


class Problem:
    """The network for one canvas: which site is which vertex, and what every choice costs."""

    def __init__(self, view: PolicyView, canvas: Canvas) -> None:
        self.view, self.prices = view, view.prices
        self.network = Network()
        self.vertices = self._number(canvas)  # free site -> vertex
        self._of = [
            self.vertices.get(site, SOURCE if paint is Paint.LOW else SINK) for site, paint in enumerate(canvas)
        ]
        self.prices.expect(site for site, vertex in enumerate(self._of) if vertex != SINK)
        self.saving = {site: self.prices.saving(site) for site in self.vertices}
        self.edges = self._edges()

    def _number(self, canvas: Canvas) -> dict[int, int]:
        free, together = _free(self.view, canvas), {s: g[0] for g in _groups(self.view) for s in g}
        vertices: dict[int, int] = {}
        for site, is_free in enumerate(free):
            if is_free:
                first = together.get(site, site)
                vertices[site] = vertices[first] if first in vertices else self.network.add_vertex()
        return vertices

    def _edges(self) -> list[Edge]:
        """Every tensor between two vertices of which one at least is free."""
        of, tensors = self._of, self.view.graph.tensors
        out: list[Edge] = []
        for index in self.prices.near(self.vertices):
            tensor = tensors[index]
            maker = of[tensor.site]
            readers = [of[site] for site in tensor.consumers]
            if not readers or (maker <= SINK and max(readers) <= SINK):
                continue
            if maker == SINK or readers[0] != maker or (len(readers) > 1 and len(set(readers)) > 1):
                out += self._bonds(index, tensor, maker, readers)
        # A rounded maximum is not found again among exact values: what compares the two must be low if it is.
        pairs = [(one, other) for one, other in self.view.selections_compared if one in self.vertices]
        return out + [Edge(of[one], (of[other],), 0, must_agree=True) for one, other in pairs]

    def _bonds(self, index: int, tensor: Tensor, maker: int, readers: list[int]) -> list[Edge]:
        """What a tensor costs if its ends differ; a cast of the program is low only if all its readers are."""
        everyone = (readers[0],) if len(readers) == 1 else _apart(readers, maker)
        out = []
        for bond in self.prices.bonds(index):
            is_for_all = bond.readers is tensor.consumers or len(readers) == 1
            end = SOURCE if bond.as_if_low else maker
            its = everyone if is_for_all and end == maker else _apart([self._of[site] for site in bond.readers], end)
            if its:
                out.append(Edge(end, its, bond.price, False, bond.only_down, bond.only_up))  # noqa: FBT003 - a tuple
        if maker > SINK and self.view.graph.sites[tensor.site].role is Role.CONVERSION:
            out.append(Edge(maker, everyone, 0, must_agree=True))
        return out

    def solve(self) -> Cut:
        """The cheapest cut: its capacity is what the free sites and the casts at them move beyond the least."""
        for site, vertex in self.vertices.items():
            if (saving := self.saving[site]) > 0:
                self.network.add_arc(SOURCE, vertex, saving)
            elif saving < 0:
                self.network.add_arc(vertex, SINK, -saving)
        for edge in self.edges:
            self._connect(edge)
        return self.network.minimum_cut()

    def _connect(self, edge: Edge) -> None:
        """Make a cast cost its price: down if a reader stays full behind a low maker, up the other way round."""
        down = ALWAYS if edge.must_agree else 0 if edge.only_down else edge.cost
        up = 0 if edge.only_up else edge.cost
        if len(edge.readers) == 1:
            self.network.add_arc(edge.maker, edge.readers[0], down, up)
            return
        if edge.maker != SINK and down:
            self._one_price(edge.maker, [reader for reader in edge.readers if reader != SOURCE], down, SINK)
        if edge.maker != SOURCE and up:
            self._one_price(edge.maker, [reader for reader in edge.readers if reader != SINK], edge.cost, SOURCE)

    def _one_price(self, maker: int, readers: list[int], cost: int, end: int) -> None:
        """Add a price that is paid once if any reader on the side `end` is apart from the maker."""
        if not readers:
            return
        readers = [end] if end in readers else readers
        meeting = readers[0] if len(readers) == 1 else self.network.add_vertex()
        tail, head = (maker, meeting) if end == SINK else (meeting, maker)
        self.network.add_arc(tail, head, cost)
        if len(readers) > 1:
            for reader in readers:
                self.network.add_arc(*((meeting, reader) if end == SINK else (reader, meeting)), ALWAYS)

    def margin(self, final: Canvas) -> dict[int, int]:
        """Per vertex, how many bytes more would be moved if it alone had the other paint."""
        low = {vertex: final[site] is Paint.LOW for site, vertex in self.vertices.items()}
        low[SOURCE], low[SINK] = True, False
        more = dict.fromkeys(self.vertices.values(), 0)
        for site, vertex in self.vertices.items():
            more[vertex] += self.saving[site] if low[vertex] else -self.saving[site]
        for edge in self.edges:
            maker, readers, cost = edge.maker, edge.readers, edge.cost
            if not cost:
                continue
            if (
                len(readers) == 1 and not edge.only_down and not edge.only_up
            ):  # whichever end changes, they agree if they did not, or else not
                change = -cost if low[maker] is not low[readers[0]] else cost
                for vertex in (maker, readers[0]):
                    if vertex > SINK:
                        more[vertex] += change
                continue
            now = edge.bytes(low)
            for vertex in {maker, *readers} - {SOURCE, SINK}:
                low[vertex] = not low[vertex]
                more[vertex] += edge.bytes(low) - now
                low[vertex] = not low[vertex]
        return more


class Edge(NamedTuple):
    """A tensor between vertices."""

    maker: int
    readers: tuple[int, ...]
    cost: int
    must_agree: bool = False
    only_down: bool = False  # a low maker and a full reader cost nothing
    only_up: bool = False  # a full maker and a low reader cost nothing

    def bytes(self, low: dict[int, bool]) -> int:
        """What the cast moves that the tensor needs, 0 if it needs none."""
        if self.only_down if low[self.maker] else self.only_up:
            return 0
        return self.cost if any(low[reader] is not low[self.maker] for reader in self.readers) else 0


def _apart(vertices: list[int], maker: int) -> tuple[int, ...]:
    """The vertices, each once, without this one."""
    return tuple(sorted({*vertices} - {maker}))


def _free(view: PolicyView, canvas: Canvas) -> list[bool]:
    """Per site, whether it is undecided and the rules permit either paint."""
    supports, kept, graph = view.supports, view.kept, view.graph
    saturated = {site for site in view.saturated if supports[site] and canvas[site] is None}
    below = saturated | below_allow(view, canvas, also=view.outer | saturated).keys()
    followers = {site for tie in graph.ties for site in tie.followers}
    together = view.listed_together
    out = []
    for index, (site, category) in enumerate(zip(graph.sites, view.categories, strict=True)):
        match category:
            case _ if canvas[index] is not None or not supports[index] or index in kept:
                out.append(False)
            case Category.ALLOW:
                out.append(False)
            case _ if site.role is Role.CONVERSION:
                out.append(bool(graph.successors[index]))
            case _ if index in together or index in followers:
                out.append(True)
            case Category.CLEAR:
                out.append(site.role is not Role.VARIABLE_READ)
            case _:
                follows = index in view.may_follow_denied or (index in below and index not in view.unsafe)
                out.append(category is Category.INFER and follows)
    return out


def _groups(view: PolicyView) -> list[list[int]]:
    """The sets of sites that ties force to have one paint."""
    groups = DisjointSets()
    for tie in view.graph.ties:
        for site in (*tie.sites[1:], *tie.followers):
            groups.join(tie.sites[0], site)
    return groups.sets()


def _unconnected(view: PolicyView, final: Canvas) -> set[int]:
    """Low sites that no chain of low sites connects with an allow op: they would be rounded for no faster arithmetic.

    A cast of the program is no link of such a chain: its result was no 16-bit value before. A sum that is accumulated
    in float32 may read what an allow op rounds for itself. What a compiler would store in float32 needs no such chain.
    """
    if view.policy.level is Level.ELEMENT_WISE_ONLY:
        return set()
    low = [paint is Paint.LOW for paint in final]
    sites = [site for site, its in enumerate(low) if its]
    links = view.graph.neighbours(sites)
    for one, other in chain.from_iterable(map(pairwise, _groups(view))):
        if low[one] and low[other]:
            links[one].append(other)
            links[other].append(one)
    roots = [site for site in view.sites_of(Category.ALLOW) if low[site]]
    roots += filter(view.prices.is_stored_wider, sites)
    for total in [site for site in sites if view.graph.kinds[site] in view.traits.accumulated]:
        readers = (site for index in view.graph.touched[total] for site in view.graph.tensors[index].consumers)
        for root in readers:
            if low[root] and view.categories[root] is Category.ALLOW:
                links[root].append(total)
    for site in sites:
        if view.graph.sites[site].role is Role.CONVERSION:
            links[site] = []
    together = {*roots, *walk(roots, links, low)}
    return {site for site in sites if site not in together}


def _causes(view: PolicyView, problem: Problem, final: Canvas) -> dict[int, tuple[int, ...]]:
    """For every free site, the neighbour of the same paint on the way to a site whose paint was fixed."""
    free = problem.vertices
    around = view.graph.neighbours(free)
    ends = sorted({site for near in around.values() for site in near if site not in free})
    around |= view.graph.neighbours(ends)
    causes: dict[int, tuple[int, ...]] = {}
    for paint in Paint:
        enter = [its is paint and site in free for site, its in enumerate(final)]
        reached = walk((site for site in ends if final[site] is paint), around, enter)
        causes.update((site, (cause,)) for site, cause in reached.items())
    return causes
