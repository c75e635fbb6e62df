"""Which carried values of a loop are state: weights, moments and sums, which must not lose digits. See `state_of`.

Two sorts are: what goes from an argument of the program to a result of it, as weights do in a loop over batches; and
what no matrix product in the loop depends on, as sums of gradients or of losses. What a recurrent layer or a stack of
layers hands on is neither.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mixdown.jax.reading.equations import is_full, is_literal
from mixdown.jax.reading.scope import Scope
from mixdown.rules.jax_lists import PRODUCTS


class Loop(NamedTuple):
    """The body of a loop: which of its arguments are carried, and as many first results."""

    jaxpr: Any
    first: int  # the number of the first argument that is carried
    carried: int

    @property
    def carries(self) -> list[tuple[Any, Any]]:
        """Per carried value, the argument and the result."""
        arguments = self.jaxpr.invars[self.first : self.first + self.carried]
        return list(zip(arguments, self.jaxpr.outvars[: self.carried], strict=True))


def state_of(loop: Loop, equation: Any, scope: Scope, skip: int = 0) -> frozenset[int]:
    """The numbers of the carried float32 values that are state.

    Args:
        loop: the body.
        equation: the loop itself; the operands that are carried come after `skip` and the constants of the body.
        scope: where it stands.
        skip: how many operands come before the constants of the body.
    """
    given = equation.invars[skip + loop.first :]
    full = [number for number, (argument, _) in enumerate(loop.carries) if is_full(argument)]
    through = {
        number
        for number in full
        if not is_literal(given[number])
        and scope.tensors[given[number]] in scope.arguments
        and equation.outvars[number] in scope.results
    }
    return frozenset(through | _sums(loop, [number for number in full if number not in through], through))


def _sums(loop: Loop, candidates: list[int], state: set[int]) -> set[int]:
    """The carried values that no product depends on, neither in this round nor in a later one."""
    carries = loop.carries
    known = set(state)
    while True:
        roots = {
            result for number, (_, result) in enumerate(carries) if number not in known and number not in candidates
        }
        used = _feeds_products(loop.jaxpr, roots)
        sums = {number for number in candidates if carries[number][0] not in used}
        lost = [number for number in candidates if number not in sums]
        if not lost:
            return sums
        candidates = sorted(sums)


def _feeds_products(jaxpr: Any, roots: set[Any]) -> set[Any]:
    """The variables that a matrix product in a jaxpr depends on, or one of the given variables."""
    used = {variable for variable in roots if not is_literal(variable)}
    for equation in reversed(jaxpr.eqns):
        if has_product(equation) or any(result in used for result in equation.outvars):
            used.update(atom for atom in equation.invars if not is_literal(atom))
    return used


def has_product(equation: Any) -> bool:
    """Whether an equation is a matrix product or convolution, or calls one."""
    if equation.primitive.name in PRODUCTS:
        return True
    inner = (each for value in equation.params.values() for each in (value if isinstance(value, tuple) else (value,)))
    jaxprs = (getattr(each, "jaxpr", each) for each in inner)
    return any(has_product(step) for jaxpr in jaxprs if hasattr(jaxpr, "eqns") for step in jaxpr.eqns)
