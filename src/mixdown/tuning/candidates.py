"""The policies that are tried for a function: `candidates` to begin with, `refined` near the one that won."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from mixdown.core import Category, Level, Paint, Plan, Policy, Role
from mixdown.rules.layer_names import layers

LARGEST = 3
"""So many layers are tried in float32, those that move the most bytes."""


class Candidate(NamedTuple):
    """A policy, under the name that people read."""

    name: str
    policy: Policy


def candidates(plan: Plan, or_low: str) -> list[Candidate]:
    """Float32, then the plan of a policy and what it may be replaced by, with `or_low`, if not "", as its dtype too."""
    whole, low = Candidate(plan.policy.low, plan.policy), plan.policy.low
    found = [
        whole,
        Candidate(f"{low} by TensorFlow's procedure", replace(plan.policy, strategy="grappler")),
        *_without_each(whole, families(plan)),
        *_each_alone(whole, families(plan)),
    ]
    others = [
        Candidate(each.name.replace(low, or_low, 1), replace(each.policy, low=or_low)) for each in found if or_low
    ]
    return [Candidate("float32", replace(plan.policy, level=Level.NOTHING)), *found, *others]


def refined(kept: Candidate, plan: Plan) -> list[Candidate]:
    """A candidate, then the same with less in 16 bits: without a family of ops, without one of the largest layers."""
    names = [op.name for op in plan.graph.ops]
    sizes: dict[str, int] = {}
    for layer, op in zip(layers(names), plan.graph.ops, strict=True):
        low = [site for site in op.sites if plan.paints[site] is Paint.LOW]
        sizes[layer] = sizes.get(layer, 0) + sum(map(plan.view.prices.low, low))
    largest = sorted((layer for layer in sizes if layer and sizes[layer]), key=lambda layer: -sizes[layer])
    return [
        kept,
        *_without_each(kept, families(plan)),
        *(_kept_full(kept.name, f"layer {layer}", kept.policy.with_keep(scope=layer)) for layer in largest[:LARGEST]),
    ]


def families(plan: Plan) -> dict[str, list[str]]:
    """The kinds of ops that run in 16 bits by a plan, sorted into families; kinds that a rule names are left out."""
    graph, view, found = plan.graph, plan.view, dict[str, set[str]]()
    ruled = {override.kind for override in plan.policy.overrides}
    for site, paint in enumerate(plan.paints):
        kind = graph.kinds[site]
        if paint is Paint.LOW and graph.sites[site].role is not Role.CONDUIT and kind not in ruled:
            found.setdefault(_family(kind, view.categories[site]), set()).add(kind)
    return {family: sorted(kinds) for family, kinds in sorted(found.items())}


def is_derived(policy: Policy, origin: Policy, or_low: str = "") -> bool:
    """Whether a policy may be one of the candidates of another: at most, it keeps more in float32."""
    count, element_wise = len(origin.overrides), origin.level is Level.DEFAULT
    like = replace(policy, low=origin.low, strategy=origin.strategy, level=origin.level, overrides=origin.overrides)
    return (
        like == origin
        and policy.low in (origin.low, or_low)
        and policy.level in (origin.level, Level.NOTHING, *([Level.ELEMENT_WISE_ONLY] if element_wise else []))
        and policy.strategy != "tuned"
        and policy.overrides[:count] == origin.overrides
        and all(each.category is Category.BARRIER and not each.name for each in policy.overrides[count:])
    )


def _family(kind: str, category: Category) -> str:
    if category is Category.ALLOW:
        convolution = "gradients of convolutions" if "Backprop" in kind else "convolutions"
        return convolution if "conv" in kind.lower() else "products"
    return "normalization" if "Norm" in kind else "element-wise"


def _without_each(whole: Candidate, found: dict[str, list[str]]) -> Iterator[Candidate]:
    for family, kinds in found.items():
        others = " and ".join(other for other in found if other != family)
        named = f"{whole.name} {others}" if whole.name == whole.policy.low else whole.name
        if others:
            yield _kept_full(named, family, whole.policy.with_keep(kinds))


def _kept_full(named: str, what: str, policy: Policy) -> Candidate:
    return Candidate(f"{named}{' and' if ', float32' in named else ', float32'} {what}", policy)


def _each_alone(whole: Candidate, found: dict[str, list[str]]) -> Iterator[Candidate]:
    """One family in 16 bits; element-wise ops, which are 16-bit beside others only, by a level of their own."""
    for family in found:
        others: Sequence[str] = [kind for other, kinds in found.items() if other != family for kind in kinds]
        if family != "element-wise" and others:
            yield Candidate(f"{whole.name} {family} only", whole.policy.with_keep(others))
        elif whole.policy.level is Level.DEFAULT:
            yield Candidate(f"{whole.name} element-wise only", replace(whole.policy, level=Level.ELEMENT_WISE_ONLY))
