"""Every refusal of a loss-scale argument: its type and its text."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mixdown.scaling import Law, SkipLimit

REFUSALS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"initial": "8"}, TypeError, r"^initial must be a number, got '8' of type str\.$"),
    ({"initial": None}, TypeError, r"^initial must be a number, got None of type NoneType\.$"),
    ({"initial": True}, TypeError, r"^initial must be a number, got True of type bool\.$"),
    ({"initial": np.array([8.0])}, TypeError, r"^initial must be a number, got array\(\[8\.\]\) of type ndarray"),
    ({"initial": 0}, ValueError, r"^initial must be finite and greater than 0, got 0\.$"),
    ({"initial": -3.0}, ValueError, r"^initial must be finite and greater than 0, got -3\.0\.$"),
    ({"initial": float("nan")}, ValueError, r"^initial must be finite and greater than 0, got nan\.$"),
    ({"initial": np.float32("inf")}, ValueError, r"^initial must be finite and greater than 0, got inf\.$"),
    ({"initial": 10**400}, ValueError, r"^initial must be finite and greater than 0, got 10+\.$"),
    ({"multiplier": 1.0}, ValueError, r"^multiplier must be greater than 1, got 1\.0: the scale could never grow\.$"),
    ({"multiplier": 1 + 2.0**-24}, ValueError, r"^multiplier must be greater than 1, got 1\.0000000596"),
    (
        {"floor": 2.0**-127},
        ValueError,
        r"^floor must be at least 2\*\*-126, got .*: a smaller scale is flushed to 0\.$",
    ),
    ({"ceiling": 2.0**128}, ValueError, r"^ceiling must be at most 3\.4028234e38, got .*: no float32 is larger\.$"),
    (
        {"initial": 0.25},
        ValueError,
        r"^the initial scale must lie .* got 0\.25 outside \[1\.0, .*\]\. Pass floor= or ce",
    ),
    ({"initial": 8, "ceiling": 4}, ValueError, r"^the initial scale must lie between floor and ceiling, got 8\.0"),
    ({"increment_period": 2.5}, TypeError, r"^increment_period must be a whole number, got 2\.5 of type float\.$"),
    ({"increment_period": 2.5}, ValueError, r"^increment_period must be a whole number, got 2\.5 of type float\.$"),
    ({"increment_period": float("nan")}, TypeError, r"^increment_period must be a whole number, got nan of type"),
    ({"increment_period": True}, TypeError, r"^increment_period must be a whole number, got True of type bool\.$"),
    ({"increment_period": 0}, ValueError, r"^increment_period must be at least 1, got 0\.$"),
    ({"tolerance": -1}, ValueError, r"^tolerance must be at least 1, got -1\.$"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), REFUSALS, ids=str)
def test_refusal(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Law(**arguments)


@pytest.mark.parametrize("scale", [8, 8.0, np.float16(8), np.float64(8), np.int32(8), Fraction(8)], ids=repr)
def test_any_real_number_is_a_scale(scale: Any) -> None:
    assert type(Law(initial=scale).initial) is float
    assert Law(initial=scale) == Law(initial=8.0)


def test_the_ceiling_that_the_message_recommends_is_accepted() -> None:
    assert Law(ceiling=3.4028234e38).ceiling == 3.4028234e38


@pytest.mark.parametrize("period", [3, 3.0, np.int64(3), np.uint8(3), np.float32(3), Fraction(3)], ids=repr)
def test_any_whole_number_is_a_period(period: Any) -> None:
    assert type(Law(increment_period=period).increment_period) is int


@pytest.mark.parametrize(
    ("limit", "kind", "message"),
    [
        (0, ValueError, r"^skip_limit must be at least 1, got 0\.$"),
        (True, TypeError, r"^skip_limit must be a whole number, got True of type bool\.$"),
        ("3", TypeError, r"^skip_limit must be a whole number, got '3' of type str\.$"),
    ],
)
def test_skip_limit_refusal(limit: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        SkipLimit(limit)


def test_skip_limit_may_be_absent() -> None:
    assert SkipLimit(None).limit is None
