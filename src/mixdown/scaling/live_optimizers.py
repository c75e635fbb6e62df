"""The optimizers that scale the loss in this process: `remember` and `alive`. They are held weakly."""

from collections.abc import Iterator
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from mixdown.scaling.step_record import StepRecord

_alive: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers = count()


def remember(optimizer: object) -> None:
    """Report this optimizer as long as it lives."""
    _alive[next(_numbers)] = optimizer


def alive() -> list[Any]:
    """The optimizers that still live, in the order in which they were made."""
    return list(_alive.values())


def readable_records() -> Iterator[tuple[str, StepRecord]]:
    """The names and records of those that have one set of counters which can be read now, as with Keras 3."""
    for optimizer in alive():
        if getattr(optimizer, "may_be_read", False):
            yield name_of(optimizer), optimizer.account()


def name_of(optimizer: Any) -> str:  # noqa: ANN401 - of any library
    """The name of the optimizer inside."""
    inner = getattr(optimizer, "inner_optimizer", None)
    return str(optimizer.get_name() if inner is None else getattr(inner, "name", None) or inner._name)  # noqa: SLF001 - v1
