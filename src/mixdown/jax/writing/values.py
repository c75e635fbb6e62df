"""The dtypes that a plan gives: `Painted`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp

from mixdown.core import Paint, Plan
from mixdown.jax.reading.builder import NONE
from mixdown.jax.reading.equations import FULL, is_full
from mixdown.jax.writing.rounded import read_rounded

AS_IT_IS = None
"""Stands where a value keeps the dtype in which it was made."""


class Painted:
    """The dtype of every site."""

    def __init__(self, plan: Plan) -> None:
        low = jnp.dtype(plan.policy.low)
        self.rounded = read_rounded(plan)
        self.dtypes = [low if paint is Paint.LOW else FULL for paint in plan.paints]
        """Per site, what it computes in."""

    def of(self, sites: Iterable[int]) -> list[Any]:
        """The dtypes of sites."""
        return [AS_IT_IS if site == NONE else self.dtypes[site] for site in sites]


def original_dtypes(atoms: Iterable[Any]) -> list[Any]:
    """The dtypes that the program gave variables: float32, or whatever they are."""
    return [FULL if is_full(atom) else AS_IT_IS for atom in atoms]
