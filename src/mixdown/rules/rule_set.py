"""The shape of a rule set: four disjoint lists of op kinds, four switches, and what else a host says of its kinds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from types import MappingProxyType

from mixdown.rules.category import Category
from mixdown.rules.list_variables import ListVariables
from mixdown.rules.traits import Traits


def kinds(names: str) -> frozenset[str]:
    """The kinds named in a text, separated by white space."""
    return frozenset(names.split())


@dataclass(frozen=True)
class RuleSet:
    """Which kinds are allow, deny, infer and clear, and whether infer ops follow a low op on their own.

    Raises:
        ValueError: a kind stands on two lists.
    """

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
        lists = {"allow": self.allow, "deny": self.deny, "infer": self.infer, "clear": self.clear}
        for (one, some), (other, more) in combinations(lists.items(), 2):
            if twice := sorted(some & more):
                raise ValueError(f"{', '.join(twice)} stands on both the {one} and the {other} list.")

    @cached_property
    def categories(self) -> MappingProxyType[str, Category]:
        """Every listed kind with its category."""
        lists = (
            (self.allow, Category.ALLOW),
            (self.deny, Category.DENY),
            (self.infer, Category.INFER),
            (self.clear, Category.CLEAR),
        )
        return MappingProxyType({kind: category for members, category in lists for kind in members})
