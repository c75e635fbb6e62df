"""The laws every plan obeys, checked before it is used. Start with LAWS.

A law returns the sites that break it. `make_plan` demotes those sites (they stay full, with the law as the reason) and
plans again, so a graph that a host describes truthfully always ends with a plan that passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mixdown.core.graph import Role
from mixdown.core.paint import Paint
from mixdown.core.policy_view import PolicyView
from mixdown.rules import Category

Law = Callable[["PolicyView", "Sequence[int]"], list[int]]
"""Given the low sites, returns those of them that break it."""


def low_is_defined(view: PolicyView, low: Sequence[int]) -> list[int]:
    """The op is defined for the low dtype."""
    sites = view.graph.sites
    return [site for site in low if not sites[site].legal]


def low_has_a_kernel(view: PolicyView, low: Sequence[int]) -> list[int]:
    """The device has a kernel for the low dtype."""
    sites = view.graph.sites
    return [site for site in low if not sites[site].kernel]


def frozen_ops_are_full(view: PolicyView, low: Sequence[int]) -> list[int]:
    """An op that must keep its types keeps them."""
    ops, sites = view.graph.ops, view.graph.sites
    return [site for site in low if ops[sites[site].op].frozen is not None]


def denied_ops_are_full(view: PolicyView, low: Sequence[int]) -> list[int]:
    """A deny op is never low."""
    categories, deny = view.categories, Category.DENY
    return [site for site in low if categories[site] is deny]


def unlisted_ops_are_full(view: PolicyView, low: Sequence[int]) -> list[int]:
    """An op on no list is never low, unless a tie or an existing cast makes it."""
    categories, sites, barrier = view.categories, view.graph.sites, Category.BARRIER
    excused = {site for tie in view.graph.ties for site in (*tie.sites, *tie.followers)}
    return [
        site
        for site in low
        if categories[site] is barrier and site not in excused and sites[site].role is not Role.CONVERSION
    ]


def exact_values_are_full(view: PolicyView, low: Sequence[int]) -> list[int]:
    """What 16 bits would ruin stays full, unless the user said otherwise."""
    exact, kept = view.exact, view.kept
    return [site for site in low if site in exact and site in kept]


def ties_agree(view: PolicyView, low: Sequence[int]) -> list[int]:
    """Tied sites have one paint, and the full one if the tie is frozen."""
    out: list[int] = []
    known = set(low)
    for tie in view.graph.ties:
        everyone = (*tie.sites, *tie.followers)
        tied = [site for site in everyone if site in known]
        if len(tied) not in (0, len(everyone)) or (tied and tie.frozen is not None):
            out.extend(tied)
    return out


LAWS: dict[str, Law] = {
    "its op is not defined for the 16-bit dtype": low_is_defined,
    "its device has no kernel for the 16-bit dtype": low_has_a_kernel,
    "its op must keep its types": frozen_ops_are_full,
    "its op is on the deny list": denied_ops_are_full,
    "its op is on no list": unlisted_ops_are_full,
    "it needs values that the 16-bit dtype cannot hold": exact_values_are_full,
    "an op that must share its dtype stays float32": ties_agree,
}


def offenders(view: PolicyView, paints: Sequence[Paint]) -> dict[int, str]:
    """Every site that breaks a law, with the first law it breaks."""
    out: dict[int, str] = {}
    low = [site for site, paint in enumerate(paints) if paint is Paint.LOW]
    for reason, law in LAWS.items():
        for site in law(view, low):
            out.setdefault(site, reason)
    return out
