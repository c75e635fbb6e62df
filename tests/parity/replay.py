"""Every decision of a plan made again from its chain of causes alone. Start with `replay`.

The stages are not called: what a stroke may do is said once more here, one row a stage, in terms of the site itself and
of the paints that its causes had when it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mixdown.core import Category, Paint, Plan

LOW, FULL = Paint.LOW, Paint.FULL

ORDER = {
    "grappler": (
        *("seed", "freeze_lists", "taint", "match_lists", "bridge", "follow", "soak", "carry"),
        *("strip", "match_lists", "match_loops", "retarget", "rest"),
    ),
    "optimal": (
        *("seed", "freeze_lists", "taint", "match_lists", "strip"),
        *(
            "keep_tables_full",
            "keep_updates_full",
            "guard",
            "meet",
            "unite",
            "conduit_rounding",
            "alone",
            "cut",
            "rest",
            "leave_alone",
        ),
    ),
}
"""Strategy -> its stages in order; a cause was painted before its effect, or by the same stage."""


class Moment(NamedTuple):
    """One stroke, and what it had to go by."""

    category: Category
    legal: bool
    frozen: bool
    causes: Sequence[Paint]
    gain: Callable[[], int]  # what low saves here, beside neighbours as they ended up


Rule = Callable[[Moment], Paint | None]


def like_its_causes(moment: Moment) -> Paint | None:
    """The one paint of all causes; without a cause, full."""
    paints = set(moment.causes) or {FULL}
    return paints.pop() if len(paints) == 1 else None


def cheaper(moment: Moment) -> Paint | None:
    """What moves less, counted again; of two that move the same, the side of the neighbour it names, or full."""
    gain = moment.gain()
    return like_its_causes(moment) if gain == 0 else LOW if gain > 0 else FULL


def low_beside_low(moment: Moment) -> Paint | None:
    return LOW if moment.causes and set(moment.causes) == {LOW} and not moment.frozen else None


def soft(moment: Moment) -> bool:
    return moment.category in (Category.INFER, Category.CLEAR)


RULES: dict[str, Rule] = {
    "seed": lambda at: LOW if at.category is Category.ALLOW and not at.frozen and not at.causes else None,
    "freeze_lists": lambda at: FULL if not at.causes else None,
    "taint": lambda at: (
        FULL if (at.category is Category.DENY and not at.causes) or (soft(at) and set(at.causes) == {FULL}) else None
    ),
    "match_lists": like_its_causes,
    "bridge": lambda at: low_beside_low(at) if soft(at) and len(at.causes) == 2 else None,
    "follow": lambda at: low_beside_low(at) if at.category is Category.INFER else None,
    "soak": lambda at: low_beside_low(at) if at.category is Category.CLEAR else None,
    "carry": low_beside_low,
    "strip": lambda at: FULL if not at.legal else None,
    "match_loops": like_its_causes,
    "retarget": low_beside_low,
    "conduit_rounding": lambda _: FULL,
    "alone": lambda _: FULL,
    "leave_alone": lambda _: FULL,
    "rest": lambda _: FULL,
    "keep_tables_full": lambda at: FULL if at.causes else None,
    "keep_updates_full": lambda at: FULL if at.category is Category.INFER else None,
    "guard": lambda at: FULL if set(at.causes) == {FULL} else None,
    "meet": lambda at: FULL if set(at.causes) == {FULL} else None,
    "unite": like_its_causes,
    "cut": cheaper,
}


class BrokenChainError(AssertionError):
    """A chain that does not lead to the paint."""


def replay(plan: Plan) -> list[Paint]:
    """The paint of every site, from strokes and causes.

    Raises:
        BrokenChainError: a site has no stroke, or the rule of its stage does not apply.
    """
    again = _Replay(plan)
    return [again.last(site) for site in range(len(plan.strokes))]


class _Replay:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        order = ORDER[plan.policy.strategy]
        self.first = {stage: order.index(stage) for stage in order}
        self.last_turn = {stage: number for number, stage in enumerate(order)}
        ties = [(*tie.sites, *tie.followers) for tie in plan.graph.ties]
        self.mates = {site: [tie for tie in ties if site in tie] for tie in ties for site in tie}

    def last(self, site: int) -> Paint:
        """The paint by the last stroke."""
        strokes = self.plan.strokes[site]
        if not strokes:
            raise BrokenChainError(f"{self.plan.graph.label(site)} has no stroke")
        return self.made(site, len(strokes) - 1)

    def made(self, site: int, number: int) -> Paint:
        """The paint that one stroke gives by the rule of its stage."""
        stroke, graph = self.plan.strokes[site][number], self.plan.graph
        its = graph.sites[site]
        moment = Moment(
            self.plan.view.categories[site],
            its.legal,
            graph.ops[its.op].frozen is not None or site in self.plan.view.demoted,
            [self.before(cause, stroke.stage) for cause in stroke.because],
            lambda: self.gain(self.group(site)),
        )
        paint = RULES[stroke.stage](moment)
        if paint is None:
            raise BrokenChainError(f"{stroke.stage} does not paint {graph.label(site)}: {moment}")
        return paint

    def group(self, site: int) -> list[int]:
        """The site and all that must agree with it, through ties."""
        group = [site]
        for here in group:
            group.extend(dict.fromkeys(mate for tie in self.mates.get(here, ()) for mate in tie if mate not in group))
        return group

    def gain(self, group: list[int]) -> int:
        """What is spared if these sites are low and not full, all others being as they are."""
        prices, graph = self.plan.view.prices, self.plan.graph
        own = sum(prices.full(site) - prices.low(site) for site in group)
        touched = {tensor for site in group for tensor in graph.touched[site]}
        casts = {paint: sum(self.casts(tensor, set(group), paint) for tensor in touched) for paint in (LOW, FULL)}
        return own + casts[FULL] - casts[LOW]

    def casts(self, tensor: int, group: set[int], paint: Paint) -> int:
        """What the casts of a tensor cost if a group of sites has this paint."""
        paints = self.plan.paints
        made = paint if (maker := self.plan.graph.tensors[tensor].site) in group else paints[maker]
        return sum(
            bond.price
            for bond in self.plan.view.prices.bonds(tensor)
            if any((paint if reader in group else paints[reader]) is not made for reader in bond.readers)
        )

    def before(self, site: int, stage: str) -> Paint:
        """The paint that a cause had when a stage came to its effect."""
        its = self.plan.strokes[site]
        earlier = [stroke.paint for stroke in its if self.first[stroke.stage] <= self.last_turn[stage]]
        return earlier[-1] if earlier else FULL  # what nobody has painted by then is not low
