"""What is known of one node while shapes are inferred: `View`. What is not known well enough raises an `AskError`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mixdown.core.graph import Shape
from mixdown.tensorflow.protos.bodies import attribute
from mixdown.tensorflow.protos.wiring import Source

Dims = tuple[int | None, ...]
"""A shape whose rank is known, or integers that shapes are made of; None where one is not known."""


class AskError(Exception):
    """TensorFlow has to be asked: something is not known well enough, or does not fit."""


def need(condition: object) -> None:
    """Leave it to TensorFlow unless a condition holds."""
    if not condition:
        raise AskError


def whole(dims: Dims) -> list[int]:
    """The integers, all of which must be known."""
    need(None not in dims)
    return [each for each in dims if each is not None]


class View(NamedTuple):
    """A node, and what is known of its inputs; a position counts inputs."""

    node: Any
    sources: Sequence[Source]
    shape_of: Callable[[Source], Shape]
    value_of: Callable[[Source], Dims | None]
    port: int = 0  # the output whose integers are asked for

    def shape(self, position: int) -> Dims:
        """The shape of an input, whose rank must be known."""
        return _known(self.shape_of(self.sources[position]))

    def shapes(self, end: int | None = None) -> list[Dims]:
        """The shapes of all inputs, of which there must be one, or of those before one."""
        need(self.sources[:end])
        return [_known(self.shape_of(source)) for source in self.sources[:end]]

    def rank(self, position: int) -> int:
        """The number of dimensions of an input, 0 if it is not known."""
        return len(self.shape_of(self.sources[position]) or ())

    def value(self, position: int) -> Dims:
        """The integers in an input, some of which may not be known."""
        return _known(self.value_of(self.sources[position]))

    def whole(self, position: int) -> list[int]:
        """The integers in an input."""
        return whole(self.value(position))

    def sizes(self, position: int) -> Dims:
        """The integers in an input that is a shape."""
        value = self.value(position)
        need(all(size is None or size >= 0 for size in value))
        return value

    def attribute(self, name: str) -> Any:
        """An attribute, empty if the node has none."""
        return attribute(self.node, name)


def _known(found: Dims | None) -> Dims:
    if found is None:
        raise AskError
    return found
