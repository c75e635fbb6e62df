"""What equations of a jaxpr are: their kind in the lists, the jaxprs they call, and whether they ask for precision."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Literal

FULL = jnp.dtype("float32")

CALLS = {
    "checkpoint": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "remat2": "jaxpr",
    "shard_map": "jaxpr",
}
"""Primitives that run one jaxpr once -> the parameter that holds it."""

EACH_BY_ITSELF = ("optimization_barrier",)
"""Primitives that pass every operand on, in whatever dtype it has."""

ACCUMULATING = ("dot_general", "ragged_dot_general")
"""Products that can yield float32 from 16-bit operands. A convolution can as well, but then runs in float32."""

SMALL_POWERS = {-1: "reciprocal", 1: "copy", 2: "square", 3: "integer_pow", 4: "integer_pow"}
"""Exponents of `integer_pow` that are no more than a few multiplications -> the kind."""

_TRANSFORMED = re.compile(r"\w*\(|\)")
_RECOMPUTED = re.compile(r"(?:^|/)(?:rematted_computation|checkpoint)(?=/|$)")


def is_full(atom: Any) -> bool:
    """Whether a variable or literal is a float32 array."""
    aval = atom.aval
    return type(aval) is ShapedArray and (aval.dtype is FULL or aval.dtype == FULL)


def is_other_float(atom: Any) -> bool:
    """Whether a variable or literal is an array of another floating type."""
    aval = atom.aval
    return (
        type(aval) is ShapedArray
        and aval.dtype is not FULL
        and aval.dtype != FULL
        and jnp.issubdtype(aval.dtype, jnp.inexact)
    )


def is_integer(atom: Any) -> bool:
    """Whether a variable or literal is an array of integers."""
    return type(atom.aval) is ShapedArray and jnp.issubdtype(atom.aval.dtype, jnp.integer)


def is_literal(atom: Any) -> bool:
    """Whether an operand is written into the equation."""
    return isinstance(atom, Literal)


def kind_of(equation: Any) -> str:
    """The kind by which the lists know an equation: its primitive, unless it does less than that may do."""
    name = str(equation.primitive.name)
    if name == "integer_pow":
        return SMALL_POWERS.get(equation.params["y"], "pow")
    if name == "div" and is_literal(equation.invars[0]) and not is_literal(equation.invars[1]):
        return "reciprocal"
    if name == "reduce_sum" and all(equation.invars[0].aval.shape[axis] == 1 for axis in equation.params["axes"]):
        return "reshape"
    if name == "convert_element_type" and is_full(equation.invars[0]) and is_full(equation.outvars[0]):
        return "copy"
    return "vdot" if name == "dot_general" and _is_sum(equation) else name


def _is_sum(equation: Any) -> bool:
    """Whether a product multiplies vectors: a long sum, in which no hardware is faster in 16 bits."""
    (contracted, _), (batched, _) = equation.params["dimension_numbers"]
    shapes = [atom.aval.shape for atom in equation.invars[:2]]
    return contracts(equation) and all(len(shape) == len(contracted) + len(batched) for shape in shapes)


def contracts(equation: Any) -> bool:
    """Whether an equation sums over anything, if it is a matrix product; any other counts as if it did."""
    if equation.primitive.name != "dot_general":
        return True
    (contracted, _), _ = equation.params["dimension_numbers"]
    return any(equation.invars[0].aval.shape[axis] != 1 for axis in contracted)


def called(equation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The jaxpr that a call runs, and its constants."""
    return opened(equation.params[CALLS[equation.primitive.name]])


def opened(closed: Any) -> tuple[Any, tuple[Any, ...]]:
    """A jaxpr without its constants, and these."""
    return getattr(closed, "jaxpr", closed), tuple(getattr(closed, "consts", ()))


def asked_precision(equation: Any) -> str:
    """The precision that the user asked of a product, "" if none or the default."""
    asked = equation.params.get("precision")
    if asked is None:
        return ""
    each = asked if isinstance(asked, tuple) else (asked,)
    words = dict.fromkeys(str(one) for one in each if one is not None and str(one) != "DEFAULT")
    return " and ".join(words)


@lru_cache(maxsize=4096)
def place_of(scope: str) -> tuple[str, bool]:
    """The path of layers in the name of a scope, without transformations; whether it belongs to a backward pass."""
    backward = "transpose(" in scope
    again = scope.rfind("/jvp(") if backward else -1  # a checkpoint's backward pass names the layers a second time
    path = _RECOMPUTED.sub("", _TRANSFORMED.sub("", scope[again + 1 :]))
    return "/".join(part for part in path.split("/") if part), backward
