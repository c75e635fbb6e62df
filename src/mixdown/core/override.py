"""One change a user makes to the lists: which ops, and which category they get."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mixdown.errors import PolicyError
from mixdown.rules import Category
from mixdown.rules.layer_names import LayerScopes
from mixdown.untrusted.typed import to_json_data


@dataclass(frozen=True)
class Override:
    """A category for the ops that all given selectors match.

    Args:
        category: what the ops become.
        kind: an op kind, such as "MatMul"; "" for any.
        name: a regular expression searched for in the op's name; "" for any.
        scope: one or more whole components of the op's name, such as "encoder/attention"; "" for any.
        attribute: a type attribute, such as "T" or "Tin[2]"; "" for all.
        layer: the name of a Keras layer, or several from outside in, such as "encoder/attention"; "" for any.

    Raises:
        PolicyError: no selector is given, or the regular expression is broken.
    """

    category: Category
    kind: str = ""
    name: str = ""
    scope: str = ""
    attribute: str = ""
    layer: str = ""

    def __post_init__(self) -> None:
        if not (self.kind or self.name or self.scope or self.layer):
            raise PolicyError(
                "Say which ops: give op kinds, layer=<a Keras layer or its name>, name=<regular expression> or "
                "scope=<part of the name>."
            )
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
        return not (self.name or self.scope or self.layer or self.attribute)

    @property
    def selector(self) -> tuple[object, ...]:
        """What it matches, to find two that match the same."""
        return (self.kind, self.name, self.scope.strip("/"), self.layer, self.attribute)

    @property
    def subject(self) -> str:
        """What it matches, for people."""
        parts = {each: getattr(self, each) for each in ("kind", "layer", "name", "scope", "attribute")}
        return self.kind if self.is_plain else ", ".join(f"{key}={value!r}" for key, value in parts.items() if value)

    @property
    def call(self) -> str:
        """The method of a policy that makes it, as it is written."""
        given = [repr(self.kind)] if self.kind else []
        rest = [(key, getattr(self, key)) for key in ("layer", "name", "scope", "attribute")]
        arguments = ", ".join([*given, *(f"{key}={value!r}" for key, value in rest if value)])
        method = "keep" if self.category is Category.BARRIER else self.category.value
        return f"with_{method}({arguments})"

    def matches(self, kind: str, name: str, scopes: LayerScopes) -> bool:
        """Whether an op is meant, its attributes aside; `scopes` are those of the graph that it is in."""
        return (
            self.kind in ("", kind)
            and (not self.scope or f"/{self.scope.strip('/')}/" in f"/{name}/")
            and (not self.layer or scopes.holds(self.layer, name))
            and (not self.name or re.search(self.name, name) is not None)
        )

    def to_dict(self) -> dict[str, str]:
        """Plain data, for JSON; empty selectors left out."""
        return {key: value for key, value in to_json_data(self).items() if value}
