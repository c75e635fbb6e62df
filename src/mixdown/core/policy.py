"""The policy: every choice a user can make, in one immutable value that checks itself when built."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from mixdown.core.override import Override
from mixdown.errors import MisfitError, PolicyError, WrongTypeError
from mixdown.rules import RULE_SETS, Category, RuleSet, known_kinds
from mixdown.rules.spellings import (
    EVERY_DEVICE,
    NamedLayer,
    choose,
    device_types,
    kinds_of,
    layer_name,
    low_dtype,
    suggestion,
)
from mixdown.untrusted.json_text import parsed
from mixdown.untrusted.typed import from_json_data, to_json_data

T = TypeVar("T")
STRATEGIES = ("optimal", "grappler", "tuned")


class Level(Enum):
    """How much of the lists is used."""

    DEFAULT = "default"
    TREAT_INFER_AS_DENY = "treat_infer_as_deny"  # infer ops are dangerous too
    TENSOR_CORES_ONLY = "tensor_cores_only"  # only allow ops run in 16 bits, each with casts of its own
    ELEMENT_WISE_ONLY = "element_wise_only"  # allow ops stay float32, and what is around them is as by default
    NOTHING = "nothing"  # everything stays float32

    def apply(self, category: Category) -> Category:
        """What a category means at this level."""
        match self:
            case Level.DEFAULT | Level.ELEMENT_WISE_ONLY:
                return category
            case Level.NOTHING:
                return Category.BARRIER
            case Level.TREAT_INFER_AS_DENY:
                return Category.DENY if category is Category.INFER else category
            case _:
                return category if category is Category.ALLOW else Category.BARRIER


def _names_its_fields(cls: type[T]) -> type[T]:
    """A dataclass that says which of its fields is probably meant by a keyword that is none."""
    init, known = cls.__init__, cls.__match_args__  # type: ignore[attr-defined]  # every dataclass has it

    @wraps(init)
    def checked(self: T, *args: Any, **given: Any) -> None:  # noqa: ANN401 - those of the dataclass
        for word in given:
            if word not in known:
                raise WrongTypeError(f"{cls.__name__} has no field {word!r}{suggestion(word, known)}.")
        init(self, *args, **given)

    setattr(cls, "__init__", checked)  # noqa: B010 - mypy forbids the assignment
    return cls


@_names_its_fields
@dataclass(frozen=True, repr=False)
class Policy:
    """Which ops may run in 16 bits, where, and how that is decided.

    Args:
        low: the 16-bit dtype, "float16" or "bfloat16"; also a dtype of TensorFlow, "fp16", "half" and their like.
        rules: the name of a rule set: "documented", "tf-2.19" or "tf-2.21" for TensorFlow, "jax" for JAX.
        strategy: how a plan is made: "optimal" is the cheapest safe assignment, "grappler" TensorFlow's procedure,
            "tuned" whichever plan is fastest: the first calls of a function run several in turn, and are timed.
        devices: "gpu", "cpu", "all", or device types such as ("GPU", "CPU"): where ops may be 16-bit.
        level: how much of the lists is used, see `Level`.
        overrides: changes to the lists, in order; made by the `with_*` methods.
        custom_kinds: kinds that neither TensorFlow nor JAX knows, declared by `with_custom`.
        or_low: the other 16-bit dtype, if tuning may choose that; "" if not.
        expected_calls: how often a function will be called, if known: tuning takes a twentieth of that, else 200 calls.
        choices: what tuning chose, by the hash of a function: `mixdown.tuned_policy` fills it in.

    Raises:
        PolicyError: a value is unknown, or two overrides contradict each other.
    """

    low: str = "float16"
    rules: str = "documented"
    strategy: str = "optimal"
    devices: str | tuple[str, ...] = "gpu"
    level: Level | str = Level.DEFAULT
    overrides: tuple[Override, ...] = ()
    custom_kinds: frozenset[str] = field(default_factory=frozenset)
    or_low: str = ""
    expected_calls: int = 0
    choices: tuple[tuple[str, Policy], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", low_dtype(self.low))
        choose("rule set", self.rules, RULE_SETS)
        choose("strategy", self.strategy, STRATEGIES)
        object.__setattr__(self, "devices", device_types(self.devices))
        object.__setattr__(self, "level", _level(self.level))
        object.__setattr__(self, "overrides", tuple(self.overrides))
        object.__setattr__(self, "custom_kinds", frozenset(self.custom_kinds))
        self._check_tuning()
        for override in self.overrides:
            self._check_kinds(override)
        _refuse_contradictions(self.overrides)

    @property
    def rule_set(self) -> RuleSet:
        """The lists behind the name."""
        return RULE_SETS[self.rules][self.low]

    @property
    def untuned(self) -> Policy:
        """The policy by which a function is planned if none of its calls is timed."""
        if self.strategy != "tuned":
            return self
        return replace(self, strategy="optimal", or_low="", expected_calls=0, choices=())

    def admits(self, device_type: str) -> bool:
        """Whether ops on this type of device may run in 16 bits."""
        return self.devices == EVERY_DEVICE or device_type in self.devices

    def categories(self) -> dict[str, Category]:
        """The category of every listed kind, before overrides that look at more than the kind."""
        lists = dict(self.rule_set.categories)
        lists.update((override.kind, override.category) for override in self.overrides if override.is_plain)
        return {kind: self.at_level(category) for kind, category in lists.items()}

    def listed(self, kind: str) -> Category:
        """The category of a kind by the lists and by overrides that look at the kind alone, before the level."""
        named = [override.category for override in self.overrides if override.is_plain and override.kind == kind]
        return named[-1] if named else self.rule_set.categories.get(kind, Category.BARRIER)

    @property
    def level_name(self) -> str:
        """The level, for people."""
        return Level(self.level).value

    def at_level(self, category: Category) -> Category:
        """What a category means at this policy's level."""
        return Level(self.level).apply(category)

    def with_allow(
        self,
        *kinds: str | Iterable[str],
        name: str = "",
        scope: str = "",
        layer: str | NamedLayer = "",
        attribute: str = "",
    ) -> Policy:
        """A copy in which these ops always run in 16 bits."""
        return self._with(Category.ALLOW, kinds, layer, name=name, scope=scope, attribute=attribute)

    def with_deny(
        self,
        *kinds: str | Iterable[str],
        name: str = "",
        scope: str = "",
        layer: str | NamedLayer = "",
        attribute: str = "",
    ) -> Policy:
        """A copy in which these ops stay float32, and infer and clear ops after them too."""
        return self._with(Category.DENY, kinds, layer, name=name, scope=scope, attribute=attribute)

    def with_infer(
        self,
        *kinds: str | Iterable[str],
        name: str = "",
        scope: str = "",
        layer: str | NamedLayer = "",
        attribute: str = "",
    ) -> Policy:
        """A copy in which these ops run in 16 bits unless they follow a deny op."""
        return self._with(Category.INFER, kinds, layer, name=name, scope=scope, attribute=attribute)

    def with_clear(
        self,
        *kinds: str | Iterable[str],
        name: str = "",
        scope: str = "",
        layer: str | NamedLayer = "",
        attribute: str = "",
    ) -> Policy:
        """A copy in which these ops do as their neighbours do."""
        return self._with(Category.CLEAR, kinds, layer, name=name, scope=scope, attribute=attribute)

    def with_keep(
        self,
        *kinds: str | Iterable[str],
        name: str = "",
        scope: str = "",
        layer: str | NamedLayer = "",
        attribute: str = "",
    ) -> Policy:
        """A copy in which these ops stay float32; unlike `with_deny`, ops after them are not affected."""
        return self._with(Category.BARRIER, kinds, layer, name=name, scope=scope, attribute=attribute)

    def with_custom(self, *kinds: str | Iterable[str]) -> Policy:
        """A copy that knows these kinds: declare ops of your own here before you put them on a list."""
        return replace(self, custom_kinds=self.custom_kinds | frozenset(kinds_of(kinds)))

    def save(self, path: str | Path) -> Path:
        """Write the policy as JSON, for `load`; returns the path."""
        target = Path(path)
        target.write_text(json.dumps(self.to_dict(), indent=2) + "\n", "utf-8")
        return target

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """The policy that `save` wrote.

        Raises:
            PolicyError: the file holds something else.
            OSError: it cannot be read.
        """
        try:
            return cls.from_dict(parsed(Path(path).read_text("utf-8")))
        except PolicyError as refused:
            raise PolicyError(f"{path} holds no policy: {refused}") from None
        except ValueError as broken:
            raise PolicyError(f"{path} holds no policy: it is not JSON ({broken}).") from None

    def to_dict(self) -> dict[str, Any]:
        """The policy as plain data, for JSON; `from_dict` brings it back."""
        data: dict[str, Any] = to_json_data(self)
        return data | {"overrides": [override.to_dict() for override in self.overrides]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Policy:
        """The policy that `to_dict` wrote.

        Raises:
            PolicyError: a key is unknown or a value is not acceptable.
        """
        try:
            return from_json_data(cls, data, "the policy")
        except MisfitError as misfit:
            raise PolicyError(f"{misfit}.") from None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **fields: Any) -> Policy:  # noqa: ANN401 - the constructor's
        """The policy that the host's own variables describe: TensorFlow's `TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_*`.

        Args:
            environment: where to look, by default the environment of the process.
            fields: what the variables do not say: `low`, `rules`, `strategy`, `devices`.

        Raises:
            PolicyError: a variable has a value TensorFlow would ignore, or lists that overlap.
        """
        policy = cls(**fields)
        lists, variables = policy.rule_set.categories, policy.rule_set.variables
        level = variables.level(environment) or policy.level_name
        edits = variables.edits(lists, environment, only_allow=level == Level.TENSOR_CORES_ONLY.value)
        overrides = tuple(Override(category, kind) for kind, category in edits.items())
        return replace(policy, overrides=(*overrides, *policy.overrides), level=level)

    def __repr__(self) -> str:
        special = {"devices": ("GPU",), "custom_kinds": frozenset()}
        default = {each.name: each.default for each in fields(self)} | special
        changed = [name for name, value in default.items() if getattr(self, name) != value and name != "overrides"]
        shown = [f"{name}={getattr(self, name)!r}" for name in changed if name != "level"]
        level = [f"level={self.level_name!r}"] if "level" in changed else []
        calls = "".join(f".{override.call}" for override in self.overrides)
        return f"Policy({', '.join(shown + level)}){calls}"

    def _with(self, category: Category, kinds: tuple[object, ...], layer: object, **selectors: str) -> Policy:
        new = Override.each(category, kinds_of(kinds), layer=layer_name(layer), **selectors)
        return replace(self, overrides=(*self.overrides, *new))

    def _check_tuning(self) -> None:
        if self.strategy != "tuned" and (self.or_low or self.expected_calls or self.choices):
            raise PolicyError("or_low, expected_calls and choices are for tuning: give strategy='tuned', too.")
        if self.or_low:
            object.__setattr__(self, "or_low", low_dtype(self.or_low))
        if type(self.expected_calls) is not int or self.expected_calls < 0:
            raise PolicyError(
                f"expected_calls is a number of calls, 0 if it is not known; got {self.expected_calls!r}."
            )

    def _check_kinds(self, override: Override) -> None:
        host = self.rule_set.host
        for kind in override.kinds:
            if kind in known_kinds(host) or kind in self.custom_kinds:
                continue
            unknown = f"{host} has no op kind {kind!r}{suggestion(kind, known_kinds(host))}"
            if other := next((name for name, sets in RULE_SETS.items() if kind in known_kinds(_host(sets))), ""):
                owner = _host(RULE_SETS[other])
                raise PolicyError(f"{unknown}, but {owner} has: for its programs, take Policy(rules={other!r}).")
            raise PolicyError(
                f"{unknown}. "
                f"If it is an op of your own, declare it first: policy.with_custom({kind!r}). "
                f"For the ops of a layer, write layer={kind!r}."
            )


def _host(rules: Mapping[str, RuleSet]) -> str:
    """Whose kinds the rules for both 16-bit dtypes list."""
    return next(iter(rules.values())).host


def policy_or(policy: Policy | None, default: Policy) -> Policy:
    """The policy that a caller gave, or the default one for None.

    Raises:
        PolicyError: the caller gave something else, such as the name of a Keras dtype policy.
    """
    given: object = policy
    if given is None:
        return default
    if isinstance(given, Policy):
        return given
    way_out = "Pass a mixdown.Policy, or nothing for the default one."
    if isinstance(given, str) and given.startswith("mixed_"):
        way_out = f"That is a dtype policy of Keras; here, write policy=mixdown.Policy(low={given[6:]!r})."
    raise PolicyError(f"policy={given!r} is of type {type(given).__name__}. {way_out}")


def _level(level: Level | str) -> Level:
    if not isinstance(level, Level):
        choose("level", level, [known.value for known in Level])
    return Level(level)


def _refuse_contradictions(overrides: tuple[Override, ...]) -> None:
    seen: dict[tuple[object, ...], Category] = {}
    for override in overrides:
        before = seen.setdefault(override.selector, override.category)
        if before is not override.category:
            raise PolicyError(
                f"{override.subject} is put on both {before.value} and {override.category.value}: "
                f"leave out one of the two."
            )
