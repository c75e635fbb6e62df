"""The shape of `Traits`: what kinds of op do to memory and to variables. Facts for prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Traits:
    """The kinds of one host, sorted by what they do."""

    looks_at_shapes: frozenset[str]  # read the shape of a value only
    moves_nothing: frozenset[str]  # return their input's buffer, or look at its shape only
    views: frozenset[str]  # return the value they are given, in another shape at most
    repeats: frozenset[str]  # return the values they are given, each several times
    costly: frozenset[str]  # element-wise, and too expensive for a compiler to compute twice
    elementwise: frozenset[str]  # fused by a compiler with their neighbours on both sides
    reductions: frozenset[str]  # fused by a compiler with what comes before them
    epilogues: frozenset[str]  # absorbed by the library call before them
    selections: frozenset[str]  # return one of the values they are given; derivatives look for that very value again
    sums: frozenset[str]
    accumulated: frozenset[str]  # sums that are accumulated in float32 whatever they read
    passes: frozenset[str]  # pass a sum on to the product that reads it
    steep: frozenset[str]  # turn a small error into a large one: what only they read stays full
    products: frozenset[str]  # of matrices, unless they sum over nothing
    scales: frozenset[str]  # multiply or divide
    whole: frozenset[str]  # make integers of integers
    digit_readers: frozenset[str]  # the last digits of what they read decide what they make
    lookups: frozenset[str]  # take a few rows of their first input
    reads: frozenset[str]  # return the value of a variable
    arguments: frozenset[str]  # bring a value into a function
    bounded: tuple[str, ...]  # a chain of kinds, last first, whose result is at most 1
    writes: re.Pattern[str]  # change a variable
    derivatives: re.Pattern[str]  # compute the derivative of another kind
    families: Mapping[str, frozenset[str]]  # other kinds that take a similar time
    convolutions: re.Pattern[str]
    convolution_gradients: re.Pattern[str]

    def writes_variable(self, kind: str) -> bool:
        """Whether ops of this kind change a variable."""
        return self.writes.fullmatch(kind) is not None

    def is_derivative(self, kind: str) -> bool:
        """Whether ops of this kind compute the derivative of another kind."""
        return self.derivatives.fullmatch(kind) is not None

    def family(self, kind: str, operations: int) -> str:
        """What sort of work an op of this kind is, given how much matrix arithmetic it does; "" if of no known sort."""
        if not operations:
            return next((name for name, members in self._families.items() if kind in members), "")
        if self.convolution_gradients.fullmatch(kind):
            return "convolution gradient"
        return "convolution" if self.convolutions.fullmatch(kind) else "product"

    @cached_property
    def _families(self) -> dict[str, frozenset[str]]:
        common = {"elementwise": self.elementwise, "lookup": self.lookups, "reduction": self.reductions}
        return {**common, **self.families}
