"""The shape of a rule set: four disjoint lists of op kinds, four switches, and what else a host says of its kinds.

Start with `RuleSet`; `ListVariables` are the environment variables by which users edit its lists.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import combinations
from types import MappingProxyType

from mixdown.errors import PolicyError
from mixdown.rules.traits import Traits


def kinds(names: str) -> frozenset[str]:
    """The kinds named in a text, separated by white space."""
    return frozenset(names.split())


class Category(Enum):
    """How safe a kind is in 16 bits, and what it does to its neighbours."""

    ALLOW = "allow"  # always low: fast there and numerically safe
    DENY = "deny"  # never low, and what follows it through infer and clear ops is not low either
    INFER = "infer"  # low, unless it follows a deny op
    CLEAR = "clear"  # numerically neutral: does as its neighbours do
    BARRIER = "barrier"  # on no list: never low, and nothing spreads through it


@dataclass(frozen=True)
class ListVariables:
    """The names of a host's variables, and what follows from their values.

    Every method takes the values to look at, None for the environment of the process.
    """

    prefix: str
    lists: Mapping[Category, tuple[str, ...]]
    """The names of each list, in the order in which their edits are applied."""
    force_all: str
    """The level that would put every op into 16 bits, which is refused."""

    def edits(
        self, before: Mapping[str, Category], values: Mapping[str, str] | None = None, *, only_allow: bool = False
    ) -> dict[str, Category]:
        """The kinds whose category the variables change, with the new category, given every listed kind's.

        Lists that overlap then are refused, and kinds to remove that are not on theirs. If `only_allow`, no list but
        the allow list counts, so that it cannot overlap with another.
        """
        found = os.environ if values is None else values
        if only_allow:
            allowed = self._edited(before, Category.ALLOW, found)
            after = {**before, **dict.fromkeys(allowed, Category.ALLOW)}
            after.update((kind, Category.BARRIER) for kind in _of(before, Category.ALLOW) - allowed)
        else:
            lists = {category: self._edited(before, category, found) for category in self.lists}
            self._refuse_overlaps(lists)
            after = {kind: category for category, kinds in lists.items() for kind in kinds}
        everywhere = {kind: after.get(kind, Category.BARRIER) for kind in sorted(after.keys() | before.keys())}
        return {kind: new for kind, new in everywhere.items() if new is not before.get(kind, Category.BARRIER)}

    def level(self, values: Mapping[str, str] | None = None) -> str:
        """The level that the variables ask for, "" if none; that of every op in 16 bits is refused."""
        level = (os.environ if values is None else values).get(self.prefix + "LEVEL", "").strip().lower()
        if level == self.force_all:
            raise PolicyError(
                f"{self.prefix}LEVEL={level.upper()} would put every op into 16 bits: mixdown does not do that."
            )
        return level

    def _edited(self, before: Mapping[str, Category], category: Category, values: Mapping[str, str]) -> set[str]:
        kinds = _of(before, category)
        for name in self.lists[category]:
            kinds |= self._names(values, f"{name}_ADD")
            removed = self._names(values, f"{name}_REMOVE")
            if strangers := sorted(removed - kinds):
                variable = f"{self.prefix}{name}_REMOVE"
                raise PolicyError(f"{variable} names {', '.join(strangers)}, not on the {category.value} list.")
            kinds -= removed
        return kinds

    def _names(self, values: Mapping[str, str], suffix: str) -> set[str]:
        return {name.strip() for name in values.get(self.prefix + suffix, "").split(",") if name.strip()}

    def _refuse_overlaps(self, lists: Mapping[Category, set[str]]) -> None:
        homes: dict[str, Category] = {}
        for category, kinds in lists.items():
            for kind in sorted(kinds):
                other = homes.setdefault(kind, category)
                if other is not category:
                    raise PolicyError(
                        f"{kind} is on both the {other.value} and the {category.value} list. To move it, also name it "
                        f"in {self.prefix}{self.lists[category][0]}_REMOVE or "
                        f"{self.prefix}{self.lists[other][0]}_REMOVE."
                    )


def _of(before: Mapping[str, Category], category: Category) -> set[str]:
    return {kind for kind, listed in before.items() if listed is category}


@dataclass(frozen=True)
class RuleSet:
    """Which kinds are allow, deny, infer and clear, none of them twice, and how they act on their neighbours."""

    allow: frozenset[str]
    deny: frozenset[str]
    infer: frozenset[str]
    clear: frozenset[str]
    frozen_lists_stop_taint: bool
    """A tensor list that must stay full passes on nothing of a denied op that writes to it."""
    bounded_exponentials_are_safe: bool
    """A kind of `Traits.bounded` whose result is at most 1 stays full, but does not deny what follows it."""
    keeps_exact: bool
    """What 16 bits would ruin stays full (`mixdown.core.exactness`); a product that sums over nothing is infer."""
    infer_follows_low: bool
    """An infer op directly after a low op, and after no denied one, is low too, even if no allow op follows it."""
    readers_that_meet_agree: bool
    """Readers of one value whose results meet again in a full op are full if one of them is."""
    taint_ends_at_results: bool
    """In compiled code a denied op denies what applies its statistics, not what is computed from the results."""
    traits: Traits
    """What the kinds of the host do to memory and to variables."""
    variables: ListVariables
    """The environment variables by which a user edits the lists."""
    host: str = "TensorFlow"
    """Whose kinds these are."""
    scopes_are_numbered: bool = True
    """The scope of a layer may have a number that its name has not, as with Keras 3 on TensorFlow."""
    sites: Mapping[str, Mapping[str, Category]] = field(default_factory=dict)
    """Kind -> attribute -> category, where one site of an op is on another list than its kind."""

    def __post_init__(self) -> None:
        for (one, some), (other, more) in combinations(self._lists.items(), 2):
            if twice := sorted(some & more):
                raise ValueError(f"{', '.join(twice)} stands on both the {one} and the {other} list.")

    @cached_property
    def categories(self) -> MappingProxyType[str, Category]:
        """Every listed kind with its category."""
        return MappingProxyType({kind: Category(name) for name, members in self._lists.items() for kind in members})

    @property
    def _lists(self) -> dict[str, frozenset[str]]:
        return {"allow": self.allow, "deny": self.deny, "infer": self.infer, "clear": self.clear}
