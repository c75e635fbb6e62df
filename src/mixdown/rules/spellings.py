"""What people write for dtypes, devices, op kinds and layers, brought into one form; the rest is refused in a sentence.

Start with `choose`. A dtype may be an object of a framework, which has a name: none is imported to recognize it.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Protocol

from mixdown.errors import PolicyError

LOW_DTYPES = ("float16", "bfloat16")
SHORT = {"fp16": "float16", "half": "float16", "f16": "float16", "bf16": "bfloat16"}
"""Other names of the 16-bit dtypes."""

EVERY_DEVICE = "all"
FURTHER = 5  # words that are looked at beyond the nearest: swapped letters count twice there


class NamedLayer(Protocol):
    """What is needed of a Keras layer."""

    @property
    def name(self) -> str:
        """The layer's name, as Keras has it."""


def choose(what: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a value that is not one of the choices, and say which is probably meant."""
    if value not in (known := tuple(choices)):
        raise PolicyError(f"Unknown {what} {value!r}{suggestion(str(value), known)}: choose from {', '.join(known)}.")


def suggestion(word: str, known: Iterable[str]) -> str:
    """The known word that is probably meant, as a question; "" if none is near. Upper and lower case are the same."""
    near = nearest(word, known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def nearest(word: str, known: Iterable[str], most: int) -> list[str]:
    """The known words that are most like another one, whatever their case; first those with letters swapped."""
    lowered: dict[str, str] = {}
    for each in known:
        lowered.setdefault(each.lower(), each)
    close = get_close_matches(word.lower(), lowered, n=most + FURTHER, cutoff=0.6)
    close.sort(key=lambda each: sorted(each) != sorted(word.lower()))
    return [lowered[each] for each in close[:most]]


def low_dtype(value: object) -> str:
    """The name of a 16-bit dtype: of "float16", "fp16", "half", the dtypes of TensorFlow and NumPy, and their like."""
    named = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None)
    word = str(value if named is None else named)
    found = SHORT.get(word.lower(), word.lower())
    choose("16-bit dtype", found if found in LOW_DTYPES else word, LOW_DTYPES)
    return found


def device_types(devices: object) -> str | tuple[str, ...]:
    """Device types in capitals, or the word "all"."""
    if isinstance(devices, str) and devices.lower() == EVERY_DEVICE:
        return EVERY_DEVICE
    types = (devices,) if isinstance(devices, str) else devices
    names = types if isinstance(types, tuple | list) else ()
    if names and all(isinstance(each, str) and re.fullmatch("[A-Za-z_]+", each) for each in names):
        return tuple(str(each).upper() for each in names)
    raise PolicyError(f"Unknown devices {devices!r}: give 'gpu', 'cpu', 'all', or device types such as ('GPU', 'CPU').")


def kinds_of(given: Sequence[object]) -> tuple[str, ...]:
    """Op kinds, given one by one or in a list; anything else, such as a layer, is refused."""
    if len(given) == 1 and isinstance(given[0], list | tuple | set | frozenset):
        given = sorted(given[0]) if isinstance(given[0], set | frozenset) else tuple(given[0])
    for each in given:
        if not isinstance(each, str):
            _refuse_kind(each)
    return tuple(map(str, given))


def _refuse_kind(value: object) -> None:
    if isinstance(value, type):
        raise PolicyError(
            f"An op kind is a name such as 'MatMul', not the class {value.__name__}. For the ops of a layer, pass the "
            f"layer or its name: layer=..."
        )
    if isinstance(name := getattr(value, "name", None), str):
        raise PolicyError(
            f"An op kind is a name such as 'MatMul', not the {type(value).__name__} {name!r}. For the ops of a layer, "
            f"write layer={name!r}."
        )
    raise PolicyError(f"An op kind is a name such as 'MatMul', not {value!r} of type {type(value).__name__}.")


def layer_name(layer: object) -> str:
    """The name of a layer that is given as an object or by its name; what has none is refused."""
    name = layer if isinstance(layer, str) else getattr(layer, "name", None)
    if not isinstance(name, str) or isinstance(layer, type):
        shown = repr(layer)
        short = shown if "\n" not in shown else f"a {type(layer).__name__} without a name"
        what = f"the class {layer.__name__}" if isinstance(layer, type) else short
        raise PolicyError(f"layer is a Keras layer or its name, not {what}.")
    return name.strip("/")
