"""One change a user makes to the lists: which ops, and which category they get."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mixdown.errors import PolicyError
from mixdown.rules import Category

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Override:
    """A category for the ops that all given selectors match.

    Args:
        category: what the ops become.
        kind: an op kind, such as "MatMul"; "" for any.
        name: a regular expression searched for in the op's name; "" for any.
        scope: one or more whole components of the op's name, such as "encoder/attention"; "" for any.
        attribute: a type attribute, such as "T" or "Tin[2]"; "" for all.

    Raises:
        PolicyError: no selector is given, or the regular expression is broken.
    """

    category: Category
    kind: str = ""
    name: str = ""
    scope: str = ""
    attribute: str = ""

    def __post_init__(self) -> None:
        if not (self.kind or self.name or self.scope):
            raise PolicyError("Say which ops: give op kinds, name=<regular expression> or scope=<part of the name>.")
        try:
            re.compile(self.name)
        except (re.error, OverflowError, RecursionError) as broken:
            raise PolicyError(f"name={self.name!r} is not a regular expression: {broken}.") from None

    @classmethod
    def each(cls, category: Category, kinds: tuple[str, ...], **selectors: str) -> tuple[Override, ...]:
        """One override per kind, or one for any kind."""
        return tuple(cls(category, kind, **selectors) for kind in kinds or ("",))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind, if one is given."""
        return (self.kind,) if self.kind else ()

    @property
    def is_plain(self) -> bool:
        """Whether the kind alone decides."""
        return not (self.name or self.scope or self.attribute)

    @property
    def selector(self) -> tuple[object, ...]:
        """What it matches, to find two that match the same."""
        return (self.kind, self.name, self.scope.strip("/"), self.attribute)

    @property
    def subject(self) -> str:
        """What it matches, for people."""
        parts = (("kind", self.kind), ("name", self.name), ("scope", self.scope), ("attribute", self.attribute))
        return self.kind if self.is_plain else ", ".join(f"{key}={value!r}" for key, value in parts if value)

    def matches(self, kind: str, name: str) -> bool:
        """Whether an op is meant, its attributes aside."""
        return (
            self.kind in ("", kind)
            and (not self.scope or f"/{self.scope.strip('/')}/" in f"/{name}/")
            and (not self.name or re.search(self.name, name) is not None)
        )

    def to_dict(self) -> dict[str, str]:
        """Plain data, for JSON; empty selectors left out."""
        data = {key: value for key, value in asdict(self).items() if value}
        return data | {"category": self.category.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Override:
        """What `to_dict` wrote."""
        if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
            raise PolicyError(
                f"An override is a mapping from {', '.join(cls.__dataclass_fields__)} to text, got {data!r}."
            )
        fields = dict(data)
        if unknown := sorted(set(fields) - set(cls.__dataclass_fields__)):
            raise PolicyError(f"An override has no {', '.join(unknown)}; it has {', '.join(cls.__dataclass_fields__)}.")
        try:
            fields["category"] = Category(fields.get("category"))
        except ValueError:
            known = ", ".join(category.value for category in Category)
            raise PolicyError(f"Unknown category {fields.get('category')!r}: choose from {known}.") from None
        return cls(**fields)
