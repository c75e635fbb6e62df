"""The shape of `Traits`: what kinds of op do to memory and to variables. Facts for prices."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

SIMPLE = 0.3
"""What an addition takes, as the bytes an element that an A100 reads in the same time."""


@dataclass(frozen=True)
class Traits:
    """The kinds of one host, sorted by what they do."""

    looks_at_shapes: frozenset[str]  # read the shape of a value only
    moves_nothing: frozenset[str]  # return their input's buffer, or look at its shape only
    views: frozenset[str]  # return the value they are given, in another shape at most
    repeats: frozenset[str]  # return the values they are given, each several times
    arithmetic: Mapping[str, float]  # element-wise, and more than an addition: as bytes that a GPU reads in that time
    widened: frozenset[str]  # of these, those that a compiler computes in float32 step by step, whatever their dtype
    elementwise: frozenset[str]  # fused by a compiler with their neighbours on both sides
    moves: frozenset[str]  # of these, those that only arrange values anew
    spreads: frozenset[str]  # of these, those that only repeat values
    masked: frozenset[str]  # element-wise, and read a mask too
    reductions: frozenset[str]  # fused by a compiler with what comes before them
    normalizations: frozenset[str]  # of these, those that return as many values as they read
    tame: frozenset[str]  # deny kinds whose results are no larger than what they are given
    epilogues: frozenset[str]  # absorbed by the library call before them
    selections: frozenset[str]  # return one of the values they are given; derivatives look for that very value again
    sums: frozenset[str]
    widens: frozenset[str]  # of these, those that the host can write to add in float32 and round only what they make
    totals: frozenset[str]  # add up numbers of one input
    accumulated: frozenset[str]  # sums that are accumulated in float32 whatever they read
    passes: frozenset[str]  # pass a sum on to the product that reads it
    steep: frozenset[str]  # turn a small error into a large one: what only they read stays full
    products: frozenset[str]  # of matrices, unless they sum over nothing
    scales: frozenset[str]  # multiply or divide
    multiplies: frozenset[str]  # of these, those that multiply
    whole: frozenset[str]  # make integers of integers
    saturating: frozenset[str]  # make small numbers of whatever they read: what follows them follows no denied op
    limited: frozenset[str]  # make small numbers of whatever they read, Inf included: safe to store behind a denied op
    divides: frozenset[str]  # divide by a constant that they read; elsewhere a constant says so itself
    absorbs: frozenset[str]  # sums and differences, in which a number that the dtype is too coarse for does not matter
    digit_readers: frozenset[str]  # the last digits of what they read decide what they make
    finite_checks: frozenset[str]  # say only whether what they read is finite: no digit of it matters
    lookups: frozenset[str]  # take a few rows of their first input
    reads: frozenset[str]  # return the value of a variable
    arguments: frozenset[str]  # bring a value into a function
    bounded: tuple[str, ...]  # a chain of kinds, last first, whose result is at most 1
    writes: re.Pattern[str]  # change a variable
    derivatives: re.Pattern[str]  # compute the derivative of another kind

    def work(self, kind: str) -> float:
        """How much arithmetic a kind takes, as the bytes an element that a GPU reads in the same time."""
        return self.arithmetic.get(kind, SIMPLE)

    def writes_variable(self, kind: str) -> bool:
        """Whether ops of this kind change a variable."""
        return self.writes.fullmatch(kind) is not None

    def is_derivative(self, kind: str) -> bool:
        """Whether ops of this kind compute the derivative of another kind."""
        return self.derivatives.fullmatch(kind) is not None
