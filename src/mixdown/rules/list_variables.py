"""Environment variables by which users edit the lists of a host: `ListVariables`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from mixdown.errors import PolicyError
from mixdown.rules.category import Category


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
        """The kinds whose category the variables change, with the new category.

        Args:
            before: the category of every listed kind.
            values: the variables.
            only_allow: whether no list but the allow list counts, so that it cannot overlap with another.

        Raises:
            PolicyError: the edited lists overlap, or a kind is removed from a list that it is not on.
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
        """The level that the variables ask for, "" if none.

        Raises:
            PolicyError: they ask for every op in 16 bits.
        """
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
