"""TensorFlow's own environment variables for the rewrite, read as edits of its lists. Start with `list_edits`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.errors import PolicyError
from mixdown.rules import Category

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"
# The names of a list, the older one last, as TensorFlow applies them.
LIST_NAMES = {
    Category.ALLOW: ("ALLOWLIST", "WHITELIST"),
    Category.INFER: ("INFERLIST", "GRAYLIST"),
    Category.DENY: ("DENYLIST", "BLACKLIST"),
    Category.CLEAR: ("CLEARLIST",),
}


def list_edits(
    before: Mapping[str, Category], environment: Mapping[str, str], *, only_allow: bool = False
) -> dict[str, Category]:
    """The kinds whose category the variables change, with the new category.

    Args:
        before: the category of every listed kind.
        environment: the variables.
        only_allow: whether no list but the allow list counts, so that it cannot overlap with another.

    Raises:
        PolicyError: the edited lists overlap, or a kind is removed from a list that it is not on.
    """
    if only_allow:
        allowed = _edited(before, Category.ALLOW, environment)
        after = {**before, **dict.fromkeys(allowed, Category.ALLOW)}
        after.update((kind, Category.BARRIER) for kind in _of(before, Category.ALLOW) - allowed)
    else:
        lists = {category: _edited(before, category, environment) for category in LIST_NAMES}
        _refuse_overlaps(lists)
        after = {kind: category for category, kinds in lists.items() for kind in kinds}
    everywhere = {kind: after.get(kind, Category.BARRIER) for kind in sorted(after.keys() | before.keys())}
    return {kind: new for kind, new in everywhere.items() if new is not before.get(kind, Category.BARRIER)}


def level_name(environment: Mapping[str, str]) -> str:
    """The level that the variables ask for, "" if none.

    Raises:
        PolicyError: they ask for every op in 16 bits.
    """
    level = environment.get(PREFIX + "LEVEL", "").strip().lower()
    if level == "unsafe_force_all":
        raise PolicyError(f"{PREFIX}LEVEL=UNSAFE_FORCE_ALL would put every op into 16 bits: mixdown does not do that.")
    return level


def _edited(before: Mapping[str, Category], category: Category, environment: Mapping[str, str]) -> set[str]:
    kinds = _of(before, category)
    for name in LIST_NAMES[category]:
        kinds |= _names(environment, f"{name}_ADD")
        removed = _names(environment, f"{name}_REMOVE")
        if strangers := sorted(removed - kinds):
            variable = f"{PREFIX}{name}_REMOVE"
            raise PolicyError(f"{variable} names {', '.join(strangers)}, not on the {category.value} list.")
        kinds -= removed
    return kinds


def _of(before: Mapping[str, Category], category: Category) -> set[str]:
    return {kind for kind, listed in before.items() if listed is category}


def _names(environment: Mapping[str, str], suffix: str) -> set[str]:
    return {name.strip() for name in environment.get(PREFIX + suffix, "").split(",") if name.strip()}


def _refuse_overlaps(lists: Mapping[Category, set[str]]) -> None:
    homes: dict[str, Category] = {}
    for category, kinds in lists.items():
        for kind in sorted(kinds):
            other = homes.setdefault(kind, category)
            if other is not category:
                raise PolicyError(
                    f"{kind} is on both the {other.value} and the {category.value} list. To move it, also name it in "
                    f"{PREFIX}{LIST_NAMES[category][0]}_REMOVE or {PREFIX}{LIST_NAMES[other][0]}_REMOVE."
                )
