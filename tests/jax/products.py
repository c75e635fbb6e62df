"""The matrix products and convolutions that a program really runs, by the dtype of their operands: `products_of`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from mixdown.rules.jax_lists import PRODUCTS


def products_of(closed: Any) -> Counter[str]:
    """Dtype of the operands -> how many products of a program have it, those inside calls and loops too."""
    found = (equation for equation in equations(closed.jaxpr) if equation.primitive.name in PRODUCTS)
    return Counter(str(equation.invars[0].aval.dtype) for equation in found)


def equations(jaxpr: Any) -> Iterator[Any]:
    """Every equation of a jaxpr, also of those that it calls."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for each in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(each, "jaxpr", each)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)
