"""Operands in the dtype that a site asks for: `Painted` knows the dtypes, `Variables` the variables of one jaxpr."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from mixdown.core import Paint, Plan
from mixdown.jax.reading.builder import NONE
from mixdown.jax.reading.equations import FULL, is_full, is_literal
from mixdown.jax.writing.rounded import read_rounded


class Painted:
    """The dtype of every site."""

    def __init__(self, plan: Plan) -> None:
        low = jnp.dtype(plan.policy.low)
        self.rounded = read_rounded(plan)
        self.dtypes = [low if paint is Paint.LOW else FULL for paint in plan.paints]
        """Per site, what it computes in."""

    def all_cast(self, values: Iterable[Any], sites: Iterable[int]) -> list[Any]:
        """Variables in the dtypes of their sites; those without a site stay as they are."""
        return [
            value if site == NONE else cast(value, self.dtypes[site]) for value, site in zip(values, sites, strict=True)
        ]


class Variables:
    """What the variables of a jaxpr stand for while it is run."""

    def __init__(self, variables: Iterable[Any], values: Iterable[Any]) -> None:
        self._values = dict(zip(variables, values, strict=True))
        self._casts: dict[tuple[Any, Any], Any] = {}

    def __getitem__(self, atom: Any) -> Any:
        return atom.val if is_literal(atom) else self._values[atom]

    def put(self, variables: Iterable[Any], values: Iterable[Any]) -> None:
        """Give variables their values."""
        self._values.update(zip(variables, values, strict=True))

    def cast(self, atom: Any, dtype: Any, *, rounded: bool = False) -> Any:
        """An operand in a dtype; a value is cast once for all its readers.

        Args:
            atom: the operand.
            dtype: the dtype.
            rounded: whether a 16-bit value is to be read as it is stored; else XLA may leave out the rounding.
        """
        if is_literal(atom):
            return np.asarray(atom.val, dtype) if dtype != FULL else atom.val
        value = self._values[atom]
        if value.dtype == dtype:
            return value
        if (atom, dtype) not in self._casts:
            kept = lax.optimization_barrier(value) if rounded and dtype == FULL else value
            self._casts[atom, dtype] = cast(kept, dtype)
        return self._casts[atom, dtype]


def cast(value: Any, dtype: Any) -> Any:
    """A value in a dtype."""
    return value if getattr(value, "dtype", None) == dtype else lax.convert_element_type(value, dtype)


def in_float32(atoms: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Variables in the dtypes that the program gave them: float32 where variables or literals are."""
    return [cast(value, FULL) if is_full(atom) else value for atom, value in zip(atoms, values, strict=True)]
