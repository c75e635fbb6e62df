"""How loops and conditions are written: with JAX's public functions, which trace their bodies again. See `LOOPS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from mixdown.jax.reading.scope import ReadJaxpr, Step
from mixdown.jax.writing.calls import Running


def scan(writer: Running, step: Step, operands: list[Any]) -> Sequence[Any]:
    """A loop of known length."""
    (body,), params = step.bodies, step.equation.params
    first, end = params["num_consts"], params["num_consts"] + params["num_carry"]

    def once(carry: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        made = writer.run(body, [*operands[:first], *carry, *slices])
        made = writer.painted.all_cast(made, step.makes)
        return made[: end - first], made[end - first :]

    carry, stacked = lax.scan(
        once,
        [jnp.asarray(value) for value in operands[first:end]],
        operands[end:],
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*carry, *stacked]


def while_loop(writer: Running, step: Step, operands: list[Any]) -> Sequence[Any]:
    """A loop until a condition holds."""
    (test, work), params = step.bodies, step.equation.params
    tests = params["cond_nconsts"]
    end = tests + params["body_nconsts"]

    def once(carry: list[Any]) -> list[Any]:
        return writer.painted.all_cast(writer.run(work, [*operands[tests:end], *carry]), step.makes)

    def goes_on(carry: list[Any]) -> Any:
        return writer.run(test, [*operands[:tests], *carry])[0]

    return list(lax.while_loop(goes_on, once, [jnp.asarray(value) for value in operands[end:]]))


def cond(writer: Running, step: Step, operands: list[Any]) -> Sequence[Any]:
    """A choice among branches."""

    def branch(body: ReadJaxpr) -> Callable[..., list[Any]]:
        return lambda *arguments: writer.painted.all_cast(writer.run(body, arguments), step.makes)

    return list(lax.switch(operands[0], [branch(body) for body in step.bodies], *operands[1:]))


LOOPS: dict[str, Callable[[Any, Step, list[Any]], Sequence[Any]]] = {"scan": scan, "while": while_loop, "cond": cond}
"""Primitive -> how it is written."""
