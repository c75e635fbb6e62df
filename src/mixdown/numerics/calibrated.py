"""What calibration found: a policy, and the number behind every rule in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixdown.core import Policy
    from mixdown.numerics.verdicts import Ruling


@dataclass(frozen=True)
class Calibration:
    """A policy made to measure.

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
            return f"Everything that is low fits {self.policy.low}: no rule is needed."
        return "\n".join(map(str, self.rulings))


@dataclass(frozen=True)
class Repair:
    """The ops to keep full so that mixed precision is close enough to float32.

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
    always = ("low", "rules", "strategy", "devices", "level")
    named = [*always, *(name for name in ("never_slower", "machine") if data[name])]
    fields = [f"{name}={_plain(data[name])}" for name in named]
    lines = [f"mixdown.Policy({', '.join(fields)})"]
    lines += [f".with_custom({', '.join(map(repr, data['custom_kinds']))})"] if data["custom_kinds"] else []
    for override in data["overrides"]:
        method = "keep" if override["category"] == "barrier" else override["category"]
        kinds = [repr(override["kind"])] if "kind" in override else []
        named = [f"{key}={override[key]!r}" for key in ("name", "scope", "attribute") if key in override]
        lines.append(f".with_{method}({', '.join(kinds + named)})")
    return "(\n    " + "\n    ".join(lines) + "\n)"


def _plain(value: object) -> str:
    return repr(tuple(value) if isinstance(value, list) else value)
