"""Where an equation stands while a program is read: `Scope`; and what was read of it: `Step` and `ReadJaxpr`."""

from __future__ import annotations

from typing import Any, NamedTuple

from mixdown.core import Role
from mixdown.jax.private import scope_of
from mixdown.jax.reading.equations import place_of


class Step(NamedTuple):
    """An equation with the sites of its ports."""

    equation: Any
    reads: tuple[int, ...]  # per operand, the site that reads it, `NONE` where it is passed on as it is
    makes: tuple[int, ...]  # per result, the site that makes it, likewise
    bodies: tuple[ReadJaxpr, ...] = ()
    tensors: tuple[int, ...] = ()  # per operand, its tensor, `NONE` where it has none; empty for calls and loops


class ReadJaxpr(NamedTuple):
    """A jaxpr with the steps of its equations."""

    jaxpr: Any
    consts: tuple[Any, ...]
    steps: tuple[Step, ...]


class Scope(NamedTuple):
    """The jaxpr that is being read: its variables, and what the equations around it say of its own."""

    tensors: dict[Any, int]  # variable -> tensor
    times: int = 1  # how often it runs
    path: str = ""  # the named scopes around it
    backward: bool = False  # it is a part of a backward pass
    origin: tuple[Any, ...] = ()  # the source infos around it, innermost first
    arguments: frozenset[int] = frozenset()  # the tensors that are the program's arguments, or state of a loop around
    results: frozenset[Any] = frozenset()  # its variables that become the program's results

    def at(self, equation: Any) -> Scope:
        """The scope of one equation, with its own names and source line."""
        inner, backward = place_of(scope_of(equation))
        path = f"{self.path}/{inner}" if self.path and inner else self.path or inner
        origin = (equation.source_info, *self.origin)
        return Scope(self.tensors, self.times, path, self.backward or backward, origin, self.arguments, self.results)

    def name(self, word: str) -> str:
        """The name of an op in it: derivatives stand in a scope of their own."""
        within = f"{self.path}/{word}" if self.path else word
        return f"gradients/{within}" if self.backward else within

    @property
    def role(self) -> Role:
        """What its plain ops are."""
        return Role.DERIVATIVE if self.backward else Role.PLAIN
