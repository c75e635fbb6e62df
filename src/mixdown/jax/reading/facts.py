"""What an equation is, whatever stands around it: `EquationFacts`, found once for all equations that are alike."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from mixdown.core import Role
from mixdown.jax.reading.equations import (
    asked_precision,
    contracts,
    is_full,
    is_integer,
    is_other_float,
    kind_of,
)

MIXED = "it has ports of another floating dtype already"


class EquationFacts(NamedTuple):
    """What an equation is."""

    operands: tuple[bool, ...]  # per operand, whether it is a float32 array
    results: tuple[bool, ...]  # likewise
    kind: str
    frozen: str | None  # why it must keep its dtypes, if it must
    role: Role | None  # None: that of whatever it belongs to
    work: int  # the multiplications and additions of a matrix product or convolution, 0 for other equations
    whole: bool  # it makes floats that are integers, and may be large
    contracts: bool


class KnownFacts:
    """The facts of the equations of a program."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], EquationFacts] = {}

    def of(self, equation: Any) -> EquationFacts:
        """What an equation is."""
        operands = equation.invars
        key = (
            equation.primitive,
            *[atom.aval for atom in operands],
            *map(type, operands),
            *[variable.aval for variable in equation.outvars],
            *equation.params.values(),
        )
        try:
            return self._known[key]
        except KeyError:
            return self._known.setdefault(key, _facts(equation))
        except TypeError:  # a parameter that cannot be compared
            return _facts(equation)


def _facts(equation: Any) -> EquationFacts:
    return EquationFacts(
        tuple(map(is_full, equation.invars)),
        tuple(map(is_full, equation.outvars)),
        kind_of(equation),
        _frozen(equation),
        _role(equation),
        _work(equation),
        _makes_integers(equation),
        contracts(equation),
    )


def _frozen(equation: Any) -> str | None:
    """Why an equation must keep its dtypes, None if it need not."""
    ports = (*equation.invars, *equation.outvars)
    if equation.primitive.name != "convert_element_type" and any(map(is_other_float, ports)):
        return MIXED
    asked = asked_precision(equation)
    return f"it asks for precision {asked}" if asked else None


def _role(equation: Any) -> Role | None:
    """What the sites of an equation are: a cast to float32 that is in the program follows its readers."""
    if equation.primitive.name != "convert_element_type":
        return None
    if is_integer(equation.outvars[0]):
        return Role.TRUNCATION
    return None if is_full(equation.invars[0]) else Role.CONVERSION


def _makes_integers(equation: Any) -> bool:
    """Whether an equation makes floats that are integers, and may be large."""
    name = equation.primitive.name
    return name == "iota" or (name == "convert_element_type" and is_integer(equation.invars[0]))


def _work(equation: Any) -> int:
    """The multiplications and additions of a matrix product or convolution, 0 for other equations."""
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        depth = prod(equation.invars[0].aval.shape[axis] for axis in contracted)
        return int(2 * depth * prod(equation.outvars[0].aval.shape))
    if equation.primitive.name == "conv_general_dilated":
        kernel, numbers = equation.invars[1].aval.shape, equation.params["dimension_numbers"]
        depth = prod(kernel) // max(1, kernel[numbers.rhs_spec[0]])
        return int(2 * depth * prod(equation.outvars[0].aval.shape))
    return 0
