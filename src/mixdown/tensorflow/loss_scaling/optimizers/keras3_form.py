"""In which form gradients reach `apply`: still scaled, as Keras 3 has it, or unscaled by the names Keras 2 had.

Keras 3 unscales inside `apply`. Before, a loop called `get_unscaled_gradients`, perhaps clipped, and then
`apply_gradients`. Both ways work here, told apart by which method was called last.
"""

import weakref
from collections.abc import Sequence
from typing import Any


class Form:
    """What the gradients that come next are taken for."""

    def __init__(self) -> None:
        self._unscaled = False
        self._seen: list[weakref.ref[Any]] = []

    def loss_was_scaled(self) -> None:
        """From now on gradients are taken for scaled ones."""
        self._unscaled, self._seen = False, []

    def were_unscaled(self, gradients: Sequence[Any]) -> None:
        """From now on gradients are taken for unscaled ones, except these very tensors, which were only looked at."""
        self._unscaled = True
        self._seen = [weakref.ref(each) for each in gradients if each is not None]

    def is_scaled(self, gradients: Sequence[Any]) -> bool:
        """Whether these gradients are still to be unscaled."""
        seen = {id(each()) for each in self._seen if each() is not None}
        return not self._unscaled or any(id(each) in seen for each in gradients)
