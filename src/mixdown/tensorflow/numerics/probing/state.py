"""The state of a program, kept and put back: variables, and the random generators of Python and NumPy: `kept`."""

from __future__ import annotations

import gc
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mixdown.tensorflow.runtime.private import EagerTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Snapshot:
    """Variables and generators as they are now. It holds references: TensorFlow copies what is written to later."""

    def __init__(self, variables: Iterable[Any]) -> None:
        self._values = [(variable, variable.read_value()) for variable in variables]
        # The global generator is what users' steps draw from.
        self._generators = random.getstate(), np.random.get_state()  # noqa: NPY002 - see above

    def restore(self) -> None:
        """Make everything bit for bit what it was."""
        for variable, value in self._values:
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
        random.setstate(self._generators[0])
        np.random.set_state(self._generators[1])  # noqa: NPY002 - see above


@contextmanager
def kept() -> Iterator[Callable[[], None]]:
    """Afterwards every variable that existed before is as it was; yields a way to do that in between.

    Not kept: what a dataset iterator has handed out, and tables, stacks and queues of the program's own.
    """
    snapshot = Snapshot(_variables())
    try:
        yield snapshot.restore
    finally:
        snapshot.restore()


def _variables() -> list[Any]:
    """Every variable of this process: a step may write any, in the functions it calls or by eager ops between them."""
    kinds: dict[type, bool] = {}
    found = []
    for candidate in gc.get_objects():
        kind = type(candidate)
        if kind not in kinds:
            kinds[kind] = isinstance(kind, type) and issubclass(kind, tf.Variable)
        if kinds[kind] and _holds_a_value(candidate):
            found.append(candidate)
    return found


def _holds_a_value(variable: Any) -> bool:
    if isinstance(variable, tf.distribute.DistributedValues):  # its parts are variables of their own
        return False
    handle = getattr(variable, "handle", None)
    return isinstance(handle, EagerTensor) and bool(variable.is_initialized())
