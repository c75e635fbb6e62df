"""The shapes of one body's values, by the shape functions of this room; others are asked for. See `BodyShapes`."""

from collections.abc import Callable
from contextlib import suppress

from mixdown.core.graph import Shape
from mixdown.tensorflow.protos.wiring import Source, WiredBody
from mixdown.tensorflow.shapes import image_shapes, move_shapes, shape_functions
from mixdown.tensorflow.shapes.known_values import integers
from mixdown.tensorflow.shapes.shape_functions import AskError, Dims, View

FUNCTIONS = {**shape_functions.FUNCTIONS, **move_shapes.FUNCTIONS, **image_shapes.FUNCTIONS}

ASK: tuple[Shape, ...] = ()
"""Stands for the outputs of a node whose shapes have to be asked for."""

DEEPEST = 40
"""Steps of integer arithmetic that are followed, to stay within Python's recursion limit."""


class BodyShapes:
    """The shapes of the values of a body, each inferred when it is needed, or `ask`ed for.

    Where the outputs of a node are `given`, they are known beforehand, though some shape among them may be None.
    """

    def __init__(
        self, wired: WiredBody, ask: Callable[[Source], Shape], given: Callable[[int], tuple[Shape, ...] | None]
    ) -> None:
        self._wired, self._ask, self._given = wired, ask, given
        self._made: dict[int, tuple[Shape, ...]] = {}
        self._values: dict[Source, Dims | None] = {}
        self._depth = 0  # of the integer arithmetic that is being followed

    def shape(self, source: Source) -> Shape:
        """The shape of an output, None where it is not known."""
        node, port = source
        if node not in self._made:
            self._infer(node)
        shapes = self._made[node]
        return shapes[port] if port < len(shapes) else self._ask(source)

    def value(self, source: Source) -> Dims | None:
        """The integers in an output."""
        if source not in self._values and self._depth < DEEPEST:
            self._values[source] = None  # should a loop lead back here, or nothing be known
            self._depth += 1
            with suppress(AskError):
                self._values[source] = integers(self._view(*source)) if source[0] >= 0 else None
            self._depth -= 1
        return self._values.get(source)

    def _infer(self, wanted: int) -> None:
        """Infer the shapes of a node's outputs, and before them those of all that it reads."""
        made, inputs = self._made, self._wired.inputs
        stack, entered = [wanted], set()
        while stack:
            node = stack[-1]
            if node in made:
                stack.pop()
                continue
            missing = [] if node < 0 or node in entered else [maker for maker, _ in inputs[node] if maker not in made]
            entered.add(node)
            if missing:
                stack.extend(missing)
            else:
                made[node] = self._shapes(node)
                stack.pop()

    def _shapes(self, node: int) -> tuple[Shape, ...]:
        given = self._given(node)
        if given is not None:
            return given
        function = FUNCTIONS.get(self._wired.body.nodes[node].op)
        if function is None or any(maker not in self._made for maker, _ in self._wired.inputs[node]):  # a loop
            return ASK
        try:
            return function(self._view(node))
        except AskError:
            return ASK

    def _view(self, node: int, port: int = 0) -> View:
        return View(self._wired.body.nodes[node], self._wired.inputs[node], self.shape, self.value, port)
