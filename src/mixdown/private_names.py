"""Private names of a library, looked up before they are used: `Private` describes one, `missing` says what is gone.

A host keeps its names in a table of its own and says with which releases it was checked; nothing else in it may touch a
private name.
"""

import inspect
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import CodeType
from typing import Any, NamedTuple, NoReturn

from mixdown.errors import MixdownError


class Private(NamedTuple):
    """One name: where it is, what it is for, and what is asked of it."""

    path: str  # module:name
    purpose: str
    takes: tuple[str, ...] = ()  # the parameters that it is called with, in order
    has: tuple[str, ...] = ()  # what is used of a module or class, or of the instances of a class

    @property
    def package(self) -> str:
        """The library that it is a part of."""
        return self.path.partition(":")[0].partition(".")[0]


def words(text: str) -> tuple[str, ...]:
    """The names in a text, separated by white space: for a long list."""
    return tuple(text.split())


def resolved(wanted: Private, advice: str) -> Any:
    """The object of that name, or a stand-in that raises an error with the advice as soon as it is used."""
    module, _, names = wanted.path.partition(":")
    try:
        found = import_module(module)
        for name in filter(None, names.split(".")):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return Missing(wanted, advice)
    return found


def missing(names: Iterable[Private]) -> list[str]:
    """What of these is gone or is not what it was, one sentence each."""
    return [problem for each in names for problem in _problems(each)]


def described(package: str) -> str:
    """A library that is loaded, with its version."""
    name = {"tensorflow": "TensorFlow", "keras": "Keras"}.get(package, package)
    return f"{name} {getattr(sys.modules.get(package), '__version__', '')}".rstrip()


class Missing:
    """Stands in for a name that is gone: every use raises an error that names it."""

    def __init__(self, wanted: Private, advice: str) -> None:
        self._message = f"{_lacks(dotted(wanted.path), wanted.purpose)} {advice}"

    def __getattr__(self, *_: object, **__: object) -> NoReturn:
        raise MixdownError(self._message)

    __call__ = __instancecheck__ = __mro_entries__ = __getattr__


def _problems(wanted: Private) -> list[str]:
    found = resolved(wanted, "")
    if isinstance(found, Missing):
        return [_lacks(dotted(wanted.path), wanted.purpose)]
    path = dotted(wanted.path)
    gone = [_lacks(f"{path}.{name}", wanted.purpose) for name in wanted.has if not _has(found, name)]
    return [*gone, *_other_parameters(wanted, found)]


def _has(owner: Any, name: str) -> bool:
    """Whether a module or class has a name, or a class speaks of it in its methods, as it does of its attributes."""
    return hasattr(owner, name) or any(name in code.co_names for code in _methods(owner))


def _methods(owner: Any) -> Iterator[CodeType]:
    """The code of the methods of a class, below whatever they are wrapped in."""
    for each in (each for base in getattr(owner, "__mro__", ()) for each in vars(base).values()):
        code = getattr(inspect.unwrap(each) if callable(each) else each, "__code__", None)
        if code is not None:
            yield code


def _other_parameters(wanted: Private, found: Any) -> list[str]:
    if not wanted.takes:
        return []
    names = tuple(inspect.signature(found).parameters)
    if names[: len(wanted.takes)] == wanted.takes:
        return []
    now = f"{described(wanted.package)} calls {dotted(wanted.path)} with ({', '.join(names)})"
    return [f"{now}, not with ({', '.join(wanted.takes)})."]


def _lacks(path: str, purpose: str) -> str:
    return f"{described(path.partition('.')[0])} has no {path} ({purpose})."


def dotted(path: str) -> str:
    """The path of a private name as people write it."""
    return path.rstrip(":").replace(":", ".")
