"""A graph as one policy sees it: the category of every site, and which sites may change at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mixdown.core.after_denied import after_denied
from mixdown.core.exactness import Need, Subject, needs, spoilt
from mixdown.core.graph import Agreement, Graph, Role, Tie, walk
from mixdown.core.override import Override
from mixdown.core.paint import Paint
from mixdown.core.policy import Policy
from mixdown.core.pricing import Prices, prices_of
from mixdown.rules import Category, Traits
from mixdown.rules.formats import FORMATS
from mixdown.rules.layer_names import LayerScopes


@dataclass(frozen=True)
class PolicyView:
    """What the stages look at. Nothing in it changes while a plan is made."""

    graph: Graph
    policy: Policy
    demoted: Mapping[int, str] = field(default_factory=dict)
    """Sites that broke a law in an earlier attempt, with the law: they stay full."""
    outer: frozenset[int] = frozenset()
    """Sites of products that were found to sum over nothing: element-wise arithmetic, whatever the lists say."""

    @cached_property
    def categories(self) -> list[Category]:
        """The category of every site."""
        out = list(self._listed)
        for site, need in self.exact.items():
            out[site] = self.policy.at_level(need.category)
        for override, sites in self.selected:
            for site in sites:
                out[site] = self.policy.at_level(override.category)
        return out

    def _listed_sites(self) -> list[tuple[int, Category]]:
        """The sites that are on another list than their kind, unless an override names the kind."""
        by_kind, graph = self.policy.rule_set.sites, self.graph
        return [
            (index, self.policy.at_level(by_kind[kind][site.attribute]))
            for index, (site, kind) in enumerate(zip(graph.sites, graph.kinds, strict=True))
            if kind in by_kind and site.attribute in by_kind[kind] and kind not in self._named
        ]

    @cached_property
    def _listed(self) -> list[Category]:
        """The category of every site by its kind."""
        out = list(self._by_kind)
        for site in self.bounded:
            out[site] = Category.BARRIER
        for site in (*self._last_sums, *self.outer):
            out[site] = self.policy.at_level(Category.INFER)
        return out

    @cached_property
    def _by_kind(self) -> list[Category]:
        """The same, whatever stands around a site."""
        listed, ops = self.policy.categories(), self.graph.ops
        barrier, clear, conduit = Category.BARRIER, Category.CLEAR, Role.CONDUIT
        out = [
            clear
            if site.role is conduit and ops[site.op].kind not in self._named
            else listed.get(ops[site.op].kind, barrier)
            for site in self.graph.sites
        ]
        for site, category in self._listed_sites():
            out[site] = category
        return out

    @cached_property
    def _last_sums(self) -> list[int]:
        """Sums of derivatives that products read too, but that none depends on: gradients of biases, rounded once."""
        graph, kinds = self.graph, self.graph.kinds
        sums = [
            index
            for index, site in enumerate(graph.sites)
            if site.role is Role.DERIVATIVE
            and kinds[index] in self.traits.accumulated
            and kinds[index] not in self._named
        ]
        if not sums:
            return []
        products = [site for site, its in enumerate(self._by_kind) if its is Category.ALLOW]
        used = walk(products, graph.dependencies, [True] * len(kinds))
        passing = [kind in self.traits.passes for kind in kinds]
        read = {
            s for site in (*products, *walk(products, graph.predecessors, passing)) for s in graph.predecessors[site]
        }
        return [site for site in sums if site not in used and not read.isdisjoint(graph.predecessors[site])]

    @cached_property
    def _named(self) -> set[str]:
        """The kinds that the user put on a list."""
        return {override.kind for override in self.policy.overrides if override.is_plain}

    @cached_property
    def exact(self) -> dict[int, Need]:
        """The sites that 16 bits would ruin, with the reason. A kind that the user put on a list is left there."""
        if not self.policy.rule_set.keeps_exact:
            return {}
        subject = Subject(self.graph, self.traits, self._listed, FORMATS[self.policy.low])
        found = needs(subject, {reader for _, reader in self.selections_compared})
        return {site: need for site, need in found.items() if self.graph.kinds[site] not in self._named}

    @cached_property
    def selections_compared(self) -> list[tuple[int, int]]:
        """Pairs of a selection, such as a maximum, and a site that compares its result with its inputs."""
        graph, kinds = self.graph, self.graph.kinds
        selections = [site for site, kind in enumerate(kinds) if kind in self.traits.selections]
        same = self.traits.views | self.traits.repeats
        views = [kind in same for kind in kinds] if selections else []
        out = []
        for site in selections:
            given = {s for source in graph.predecessors[site] for s in graph.successors[source]} - {site}
            seen = [site, *walk([site], graph.successors, views)]
            out += [(site, reader) for s in seen for reader in graph.successors[s] if reader in given]
        return out

    def outer_products(self, paints: Sequence[Paint]) -> set[int]:
        """The low sites of matrix products that sum over nothing."""
        if not (self.policy.rule_set.keeps_exact and self.graph.contracts):
            return set()
        low = [site for site in self.sites_of(Category.ALLOW) if paints[site] is Paint.LOW]
        return {site for site in low if not self.graph.contracts[self.graph.sites[site].op]}

    @cached_property
    def bounded(self) -> set[int]:
        """The exponentials of a negated square: their results are at most 1, so they do not deny what follows them."""
        if not self.policy.rule_set.bounded_exponentials_are_safe:
            return set()
        last, *before = self.traits.bounded
        if any(override.is_plain and override.kind == last for override in self.policy.overrides):
            return set()
        return {site for site, kind in enumerate(self.graph.kinds) if kind == last and self._reads_only(site, *before)}

    def _reads_only(self, site: int, *kinds: str) -> bool:
        """Whether a value comes through a chain of single inputs of these kinds."""
        for kind in kinds:
            sources = self.graph.predecessors[site]
            if len(sources) != 1 or self.graph.kinds[sources[0]] != kind:
                return False
            site = sources[0]
        return True

    @cached_property
    def selected(self) -> list[tuple[Override, list[int]]]:
        """The overrides that look at more than the kind, in order, each with the sites it matches."""
        special = [override for override in self.policy.overrides if not override.is_plain]
        return [(override, self._matching(override)) for override in special]

    @cached_property
    def kept(self) -> set[int]:
        """The sites that an override or a need for exact values takes off the lists: not even a tie makes them low."""
        kinds = {o.kind for o in self.policy.overrides if o.is_plain and o.category is Category.BARRIER}
        ops = self.graph.ops
        out = {site for site, its in enumerate(self.graph.sites) if kinds and ops[its.op].kind in kinds}
        out |= {site for site, need in self.exact.items() if need.category is Category.BARRIER}
        for override, sites in self.selected:
            (out.update if override.category is Category.BARRIER else out.difference_update)(sites)
        return out

    @cached_property
    def scopes(self) -> LayerScopes:
        """The scopes of the graph's ops, in which rules look for layers."""
        return LayerScopes((op.name for op in self.graph.ops), numbered=self.policy.rule_set.scopes_are_numbered)

    def _matching(self, override: Override) -> list[int]:
        return [
            site
            for op in self.graph.ops
            if override.matches(op.kind, op.name, self.scopes)
            for site in op.sites
            if override.attribute in ("", self.graph.sites[site].attribute)
        ]

    @cached_property
    def candidates(self) -> list[bool]:
        """Per site, whether it may change: its op is not frozen and it was not demoted."""
        ops, demoted = self.graph.ops, self.demoted
        return [ops[site.op].frozen is None and index not in demoted for index, site in enumerate(self.graph.sites)]

    @cached_property
    def supports(self) -> list[bool]:
        """Per site, whether it may change and its op can run low on its device."""
        return [
            free and site.legal and site.kernel for free, site in zip(self.candidates, self.graph.sites, strict=True)
        ]

    @cached_property
    def traits(self) -> Traits:
        """What the kinds of the graph's host do."""
        return self.policy.rule_set.traits

    @cached_property
    def prices(self) -> Prices:
        """What every choice costs, in bytes moved."""
        soft = self.mask(Category.INFER, Category.CLEAR)
        unsafe = self.unsafe - self._rounded_sums
        free = {site for site, its in enumerate(soft) if its and self.supports[site] and site not in unsafe}
        return prices_of(self.graph, self.traits, self.categories, self.supports, free - self.kept)

    @cached_property
    def may_follow_denied(self) -> set[int]:
        """Sites that a denied op does not deny: products, and in compiled code moves, and sums that allow ops read.

        These may be low, so that the value is stored once, in 16 bits: rounding before or after a move is the same, and
        an allow op would round the sum anyway. If a derivative overflows by it, loss scaling skips the step.
        """
        if self.policy.strategy != "optimal" or not self.graph.is_compiled:
            return set(self.outer)
        if self._ends_taint:
            return (self._behind_denied | self._rounded_sums | self.outer) - self._spoilt
        ops, sites, supports = self.graph.ops, self.graph.sites, self.supports
        moved = {s for s in self.sites_of(Category.CLEAR) if supports[s] and ops[sites[s].op].compiled}
        sums = self._sums_for([site for site in self.sites_of(Category.ALLOW) if supports[site]])
        return (moved | sums | self._last_sums_of_small | self.outer) - self._spoilt

    @cached_property
    def _rounded_sums(self) -> set[int]:
        """Sums that products read, and so round: Inf is Inf there in any case."""
        return self._sums_for([site for site in self.sites_of(Category.ALLOW) if self.supports[site]])

    @cached_property
    def _last_sums_of_small(self) -> set[int]:
        """Last sums that follow no denied op but those that may make too small numbers."""
        exact = self.exact
        others = [s for s in self.sites_of(Category.DENY) if not (s in exact and exact[s].is_small)]
        tainted = walk(others, self.graph.successors, self.mask(Category.INFER, Category.CLEAR))
        return {site for site in self._last_sums if site not in tainted}

    @property
    def _ends_taint(self) -> bool:
        rules = self.policy.rule_set
        return rules.taint_ends_at_results and self.policy.strategy == "optimal" and self.graph.is_compiled

    @cached_property
    def _behind_denied(self) -> set[int]:
        """Compiled sites that denied ops reach, and that are as safe as what comes before those."""
        graph, ends = self.graph, self.sites_of(Category.ALLOW)
        below = walk(ends, graph.successors, [True] * len(graph.sites))
        return {
            index
            for index, site in enumerate(graph.sites)
            if graph.ops[site.op].compiled
            and self.supports[index]
            and index not in self.unsafe
            and (
                self.categories[index] is Category.CLEAR
                or (self.categories[index] is Category.INFER and index in below)
            )
        }

    @cached_property
    def unsafe(self) -> set[int]:
        """Compiled sites that must be full because of denied ops before them."""
        if not self._ends_taint:
            return set()
        sizes = list(map(Prices(self.graph, self.traits).elements, range(len(self.graph.tensors))))
        scales = self.traits.scales
        small = {site for site, need in self.exact.items() if need.is_small and self.graph.kinds[site] in scales}
        return after_denied(self.graph, self.traits, self.categories, sizes, small)

    @cached_property
    def _spoilt(self) -> set[int]:
        """What may hold a value that the low dtype cannot, and must not."""
        subject = Subject(self.graph, self.traits, self.categories, FORMATS[self.policy.low])
        return spoilt(subject, self.exact, self._last_sums)

    @cached_property
    def saturated(self) -> set[int]:
        """The sites that make small numbers of whatever they read: no denied op before them denies them."""
        return {site for site in self.sites_of(Category.INFER) if self.graph.kinds[site] in self.traits.saturating}

    @cached_property
    def computing(self) -> list[bool]:
        """Per site, whether it does arithmetic or moves values within a function, and rounds only if it is low."""
        plain = (Role.PLAIN, Role.DERIVATIVE)
        return [
            site.role in plain and category is not Category.ALLOW
            for site, category in zip(self.graph.sites, self.categories, strict=True)
        ]

    @cached_property
    def onward(self) -> list[list[int]]:
        """Per site, the computing sites in which its rounding may be felt.

        A backward pass is not entered: what it takes of a forward pass is a factor of a derivative, no part of a sum.
        Nor is what is only looked at for Inf and NaN: digits do not matter there.
        """
        forward = [its and site not in self._only_checked for site, its in enumerate(self.computing)]
        backward = [site.role is Role.DERIVATIVE for site in self.graph.sites]
        return [
            [site for site in after if forward[site] and (here or not backward[site])]
            for here, after in zip(backward, self.graph.successors, strict=True)
        ]

    @cached_property
    def _only_checked(self) -> set[int]:
        """The sites whose results are only looked at for Inf and NaN, as loss scaling does."""
        graph, checks = self.graph, self.traits.finite_checks
        found = {site for site, kind in enumerate(graph.kinds) if kind in checks}
        queue = list(found)
        for here in queue:
            for site in graph.predecessors[here]:
                if site not in found and found.issuperset(graph.successors[site]):
                    found.add(site)
                    queue.append(site)
        return found

    def _sums_for(self, ends: list[int]) -> set[int]:
        """Fused additions whose result an allow op reads, maybe through ops that only pass it on."""
        kinds = self.graph.kinds
        views = walk(ends, self.graph.predecessors, [kind in self.traits.passes for kind in kinds])
        read = {source for site in (*ends, *views) for source in self.graph.predecessors[site]}
        return {
            site
            for site in read
            if kinds[site] in self.traits.sums
            and self.supports[site]
            and self.graph.ops[self.graph.sites[site].op].compiled
        }

    @cached_property
    def listed_together(self) -> set[int]:
        """The sites that share a tensor list with others: what makes those low makes them low."""
        return {site for tie in self.ties(Agreement.SPREAD) for site in tie.sites}

    def sites_of(self, category: Category) -> list[int]:
        """The sites of one category."""
        return self._sites[category]

    @cached_property
    def _sites(self) -> dict[Category, list[int]]:
        categories = self.categories
        return {each: [site for site, its in enumerate(categories) if its is each] for each in Category}

    def mask(self, *categories: Category) -> list[bool]:
        """Per site, whether its category is one of these."""
        return [category in categories for category in self.categories]

    def ties(self, agreement: Agreement) -> list[Tie]:
        """The ties of one agreement."""
        return [tie for tie in self.graph.ties if tie.agreement is agreement]
