"""Calibration and repair of policies: the rules on ranges of numbers, and the policies that they lead to.

`smallest_kept` finds a small set of ops that must stay in float32, with few runs.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from mixdown.core import Policy
from mixdown.numerics.tally import Tally
from mixdown.rules.formats import FORMATS
from mixdown.untrusted.escaped import escaped

Item = TypeVar("Item", bound=Hashable)


class Verdict(Enum):
    """What calibration does with an op."""

    KEEP = "keep"  # its numbers exceed the range of the 16-bit dtype: it stays in float32
    PROMOTE = "promote"  # denied by the rules, but its numbers lie well within the range: it may run in 16 bits


@dataclass(frozen=True)
class Observed:
    """A tensor that an op reads or makes, and the loss scale that training will multiply it with."""

    name: str
    tally: Tally
    factor: float = 1.0

    @property
    def largest(self) -> float:
        """The largest magnitude it will have."""
        return self.tally.max_abs * self.factor


@dataclass(frozen=True)
class Ruling:
    """The verdict on one op, and the number that led to it."""

    op: str
    kind: str
    verdict: Verdict
    reason: str

    def __str__(self) -> str:
        return escaped(f"{self.verdict.value:8}{self.op} ({self.kind}): {self.reason}")


def obstacle(tensors: Iterable[Observed], low: str, headroom: int) -> str:
    """Why tensors do not fit a format, "" if they do.

    Their numbers must stay `headroom` powers of two below the largest of the format, and some of each tensor must reach
    its smallest normal number.
    """
    held = FORMATS[low]
    for each in tensors:
        if each.tally.infs or each.tally.nans:
            return f"{each.name} is not finite even in float32"
        if each.largest * 2.0**headroom > held.largest:
            return f"{each.name} reaches {each.largest:.3g}, and {low} ends at {held.largest:.3g}"
        if 0 < each.largest < held.smallest_normal:
            return (
                f"{each.name} never exceeds {each.largest:.3g}, and {low} loses digits below {held.smallest_normal:.3g}"
            )
    return ""


def is_safe(tensors: Iterable[Observed], low: str, headroom: int) -> bool:
    """Whether tensors lie well within the range of a format: they fit, and no number becomes zero."""
    tensors = list(tensors)
    flushed = any(each.tally.losses(low).flushed for each in tensors)
    return bool(tensors) and not flushed and not obstacle(tensors, low, headroom)


@dataclass(frozen=True)
class Calibration:
    """A policy that was fitted to measured numbers.

    Attributes:
        policy: the policy that calibration started from, with a rule for every op below.
        rulings: the ops that got a rule, and why.
        loss_scale: the scale that gradients were judged under.
    """

    policy: Policy
    rulings: tuple[Ruling, ...]
    loss_scale: float

    def __str__(self) -> str:
        if not self.rulings:
            return f"All numbers fit {self.policy.low}: no rule is needed."
        return "\n".join(map(str, self.rulings))


@dataclass(frozen=True)
class Repair:
    """The ops to keep in float32 so that mixed precision is close enough to it.

    Attributes:
        policy: the policy that the search started from, with these ops kept.
        kept: the ops, by kind and name.
        runs: how often the function was run to find them.
        tolerance: the largest relative error that was allowed.
        error: the largest relative error of outputs and gradients that is left.
    """

    policy: Policy
    kept: tuple[tuple[str, str], ...]
    runs: int
    tolerance: float
    error: float

    def __str__(self) -> str:
        found = "nothing has to be kept" if not self.kept else f"{len(self.kept)} ops kept in float32"
        lines = [f"# {found}: relative error {self.error:.2e} <= {self.tolerance:.2e}, after {self.runs} runs"]
        return "\n".join([*lines, pasteable(self.policy)])


def pasteable(policy: Policy) -> str:
    """A policy as the Python expression that makes it."""
    data = policy.to_dict()
    with_methods = ("custom_kinds", "overrides")
    given = {name: value for name, value in data.items() if value and name not in with_methods}
    fields = [f"{name}={(tuple(each) if isinstance(each, list) else each)!r}" for name, each in given.items()]
    lines = [f"mixdown.Policy({', '.join(fields)})"]
    lines += [f".with_custom({', '.join(map(repr, data['custom_kinds']))})"] if data["custom_kinds"] else []
    for override in data["overrides"]:
        method = "keep" if override["category"] == "barrier" else override["category"]
        kinds = [repr(override["kind"])] if "kind" in override else []
        named = [f"{key}={override[key]!r}" for key in ("layer", "name", "scope", "attribute") if key in override]
        lines.append(f".with_{method}({', '.join(kinds + named)})")
    return "(\n    " + "\n    ".join(lines) + "\n)"


def smallest_kept(items: Sequence[Item], passes: Callable[[frozenset[Item]], bool]) -> tuple[list[Item], int]:
    """The items to keep so that `passes`, and how many runs it took to find them.

    Keeping all is assumed to pass. If keeping more never makes a set fail, no item of the result can be left out. The
    shortest prefix of the items that is enough to keep ends with an item that is needed: it is found by halving. It is
    kept from then on, and the search goes on before it, until what was found is enough. With k items needed among n
    that takes at most k * (ceil(log2 n) + 1) + 1 runs.
    """
    known = {frozenset(items): True}
    runs = 0

    def enough(kept: Iterable[Item]) -> bool:
        nonlocal runs
        if (key := frozenset(kept)) not in known:
            runs += 1
            known[key] = passes(key)
        return known[key]

    found: list[Item] = []
    end = len(items)
    while not enough(found):
        # The shortest prefix of items[:end] that is enough together with what was found ends with an op that is needed.
        failing, passing = 0, end
        while passing - failing > 1:
            middle = (failing + passing) // 2
            if enough((*items[:middle], *found)):
                passing = middle
            else:
                failing = middle
        known[frozenset((*items[:passing], *found))] = True
        end = passing - 1
        found.append(items[end])
    return [item for item in items if item in set(found)], runs
