"""A clock for tests of tuning, by which a call takes the seconds that its policy is given: `plant`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixdown.core import Level, Policy
from mixdown.tuning.tuner import Tuner, timed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import pytest


def low_is_faster(policy: Policy) -> float:
    """Whatever is 16-bit takes 0.8 of float32."""
    return 1.0 if policy.level is Level.NOTHING else 0.8


def plant(monkeypatch: pytest.MonkeyPatch, module: ModuleType, seconds: Callable[[Policy], float]) -> None:
    """Replace the clock of a module that times calls; the calls themselves are made as ever."""
    policies: list[Policy] = []
    original = Tuner.next

    def next_policy(tuner: Any, *rest: Any) -> Any:
        policy, note = original(tuner, *rest)
        policies.append(policy)
        return policy, note

    def clock(call: Any, synchronize: Any, note: Any, **settings: Any) -> Any:
        policy = policies[-1]
        return timed(call, synchronize, lambda _: note(seconds(policy)), **settings)

    monkeypatch.setattr(Tuner, "next", next_policy)
    monkeypatch.setattr(module, "timed", clock)
