"""A graph as one policy sees it: the category of every site, and which sites may change at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from mixdown.core.clock import Clock
from mixdown.core.graph import Agreement, Graph, Role, Tie, walk
from mixdown.core.override import Override
from mixdown.core.policy import Policy
from mixdown.core.pricing import Prices, prices_of
from mixdown.core.pricing.machines import MACHINES
from mixdown.rules import Category, Traits


@dataclass(frozen=True)
class PolicyView:
    """What the stages look at. Nothing in it changes while a plan is made."""

    graph: Graph
    policy: Policy
    demoted: Mapping[int, str] = field(default_factory=dict)
    """Sites that broke a law in an earlier attempt, with the law: they stay full."""

    @cached_property
    def categories(self) -> list[Category]:
        """The category of every site."""
        listed, ops = self.policy.categories(), self.graph.ops
        barrier, clear, conduit = Category.BARRIER, Category.CLEAR, Role.CONDUIT
        named = {override.kind for override in self.policy.overrides if override.is_plain}
        out = [
            clear if site.role is conduit and ops[site.op].kind not in named else listed.get(ops[site.op].kind, barrier)
            for site in self.graph.sites
        ]
        for site, category in self._listed_sites(named):
            out[site] = category
        for site in self.bounded:
            out[site] = barrier
        for override, sites in self.selected:
            for site in sites:
                out[site] = self.policy.at_level(override.category)
        return out

    def _listed_sites(self, named: set[str]) -> list[tuple[int, Category]]:
        """The sites that are on another list than their kind, unless an override names the kind."""
        by_kind, graph = self.policy.rule_set.sites, self.graph
        return [
            (index, self.policy.at_level(by_kind[kind][site.attribute]))
            for index, (site, kind) in enumerate(zip(graph.sites, graph.kinds, strict=True))
            if kind in by_kind and site.attribute in by_kind[kind] and kind not in named
        ]

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
        """The sites that an override takes off the lists: not even a tie makes them low."""
        kinds = {o.kind for o in self.policy.overrides if o.is_plain and o.category is Category.BARRIER}
        ops = self.graph.ops
        out = {site for site, its in enumerate(self.graph.sites) if kinds and ops[its.op].kind in kinds}
        for override, sites in self.selected:
            (out.update if override.category is Category.BARRIER else out.difference_update)(sites)
        return out

    def _matching(self, override: Override) -> list[int]:
        return [
            site
            for op in self.graph.ops
            if override.matches(op.kind, op.name)
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

    @property
    def traits(self) -> Traits:
        """What the kinds of the graph's host do."""
        return self.policy.rule_set.traits

    @cached_property
    def prices(self) -> Prices:
        """What every choice costs: bytes moved, or time if a machine decides."""
        return prices_of(
            self.graph, self.traits, self.categories, self.supports, machine=self.machine, low=self.policy.low
        )

    @property
    def machine(self) -> Clock | None:
        """The machine whose time decides; None if bytes do."""
        return MACHINES[self.policy.machine] if self.policy.never_slower else self.graph.machine

    @cached_property
    def may_follow_denied(self) -> set[int]:
        """Sites that a denied op does not deny, in compiled code: those that move values, and sums that allow ops read.

        They may be low, so that the value is stored once, in 16 bits: rounding before or after a move is the same, and
        an allow op would round the sum anyway. If a derivative overflows by it, loss scaling skips the step.
        """
        if self.policy.strategy != "optimal" or not self.graph.is_compiled:
            return set()
        moved = {
            index
            for index, site in enumerate(self.graph.sites)
            if self.graph.ops[site.op].compiled and self.supports[index] and self.categories[index] is Category.CLEAR
        }
        return moved | self._sums_for([site for site in self.sites_of(Category.ALLOW) if self.supports[site]])

    def _sums_for(self, ends: list[int]) -> set[int]:
        """Fused additions whose result an allow op reads, through views at most."""
        kinds = self.graph.kinds
        views = walk(ends, self.graph.predecessors, [kind in self.traits.views for kind in kinds])
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
        return [site for site, its in enumerate(self.categories) if its is category]

    def mask(self, *categories: Category) -> list[bool]:
        """Per site, whether its category is one of these."""
        return [category in categories for category in self.categories]

    def ties(self, agreement: Agreement) -> list[Tie]:
        """The ties of one agreement."""
        return [tie for tie in self.graph.ties if tie.agreement is agreement]
