"""Builds frozen dataclasses from JSON and checks every value against its annotation. Start with `read_document`."""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum, EnumType
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from mixdown.errors import MisfitError, MixdownError
from mixdown.untrusted.json_text import parsed

T = TypeVar("T")
Reader = Callable[[Any], Any]
LARGEST = 2**127
"""The largest whole number that is accepted: all of them fit a float, and none takes long to compute with."""

WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", NoneType: "null"}
"""The types that plain values may have, as error messages call them."""


def read_document(kind: type[T], text: str, schema: str, name: str, error: type[MixdownError] = MixdownError) -> T:
    """An instance of a dataclass, from JSON text that also holds the name and version of its format under "schema".

    An `error` that calls it by its `name` is raised if the text is not JSON, of another schema, or does not fit.
    """
    try:
        data = parsed(text)
    except ValueError as broken:
        raise error(f"This is not a {name}: it is not JSON ({broken}).") from None
    found = data.pop("schema", None) if isinstance(data, dict) else None
    if found != schema:
        raise error(f"This is not a {name} that mixdown can read: its schema is {found!r}, not {schema!r}.")
    try:
        return from_json_data(kind, data, f"the {name}")
    except MisfitError as misfit:
        raise error(f"This {name} is broken: {misfit}.") from None


def to_json_data(value: Any) -> Any:  # noqa: ANN401 - JSON is untyped
    """A dataclass, or whatever its fields may hold, as plain data for JSON; `from_json_data` reverses it."""
    if is_dataclass(value):
        return {field.name: to_json_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset):
        return sorted(map(to_json_data, value))
    return list(map(to_json_data, value)) if isinstance(value, tuple) else value


def from_json_data(kind: type[T], data: object, place: str = "") -> T:
    """An instance of a dataclass, from the parsed JSON of its `asdict`, which error messages call `place`.

    Fields are text, numbers, enums, objects, tuples or frozen sets of these, or other dataclasses. One that has a
    `from_dict` is read by that. A `MisfitError` is raised for a field that is unknown, missing or of another type.
    """
    try:
        return cast("T", _object_reader(cast("Any", kind))(data))
    except MisfitError as misfit:
        raise MisfitError(" of ".join(filter(None, (misfit.place, place))), misfit.problem) from None


@cache
def _reader(hint: Any) -> Reader:  # noqa: ANN401 - annotations are of many types
    """The function that checks and converts a value with this annotation."""
    if hint is Any:
        return lambda value: value
    if hasattr(hint, "from_dict"):
        return cast("Reader", hint.from_dict)
    if is_dataclass(hint):
        return _object_reader(cast("Any", hint))
    if isinstance(hint, EnumType):
        return partial(_read_enum, hint, [each.value for each in cast("Any", hint)])
    items = [_reader(item) for item in get_args(hint) if item is not Ellipsis]
    if get_origin(hint) in CONTAINERS:
        return partial(CONTAINERS[get_origin(hint)], items, Ellipsis in get_args(hint))
    accepted = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return partial(_read_plain, accepted) if set(accepted) <= WORDS.keys() else partial(_read_either, items)


@cache
def _object_reader(kind: Any) -> Reader:  # noqa: ANN401 - dataclasses have no common type
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    return partial(_read_object, kind, readers, needed)


def _read_object(kind: Any, readers: dict[str, Reader], needed: list[str], value: Any) -> Any:  # noqa: ANN401 - JSON is untyped
    if not isinstance(value, dict):
        raise MisfitError("", "should be an object")
    if unknown := sorted(value.keys() - readers.keys()):
        raise MisfitError("", f"has no {', '.join(unknown)}; it has {', '.join(readers)}")
    if absent := [name for name in needed if name not in value]:
        raise MisfitError("", f"is incomplete: it has no {', '.join(absent)}")
    return kind(**{name: _inside(name, readers[name], part) for name, part in value.items()})


def _read_enum(kind: Any, values: list[Any], value: Any) -> Any:  # noqa: ANN401 - JSON is untyped
    if value not in values:
        raise MisfitError("", f"should be one of {', '.join(values)}")
    return kind(value)


def _read_either(readers: list[Reader], value: Any) -> Any:  # noqa: ANN401 - JSON is untyped
    problems = []
    for each in readers:
        try:
            return each(value)
        except MisfitError as misfit:
            problems.append(misfit.problem.removeprefix("should be "))
    raise MisfitError("", f"should be {', or '.join(problems)}")


def _read_plain(accepted: tuple[type, ...], value: Any) -> Any:  # noqa: ANN401 - JSON is untyped
    # Compares types exactly: in Python, True is an int. JSON may write 1.0 as 1.
    known = type(value) in accepted or (type(value) is int and float in accepted)
    if not known or (type(value) is int and abs(value) > LARGEST):
        raise MisfitError("", f"should be {' or '.join(WORDS[each] for each in accepted)}")
    return value


def _read_tuple(readers: list[Reader], endless: bool, value: Any) -> Any:  # noqa: ANN401, FBT001 - JSON is untyped
    if not isinstance(value, list) or not (endless or len(value) == len(readers)):
        raise MisfitError("", "should be a list" if endless else f"should be a list of {len(readers)}")
    each = readers * len(value) if endless else readers
    return tuple(_inside(f"[{at}]", *pair) for at, pair in enumerate(zip(each, value, strict=True)))


def _read_set(readers: list[Reader], _: bool, value: Any) -> Any:  # noqa: ANN401, FBT001 - JSON is untyped
    return frozenset(_read_tuple(readers, True, value))  # noqa: FBT003 - it has any length


def _read_mapping(readers: list[Reader], _: bool, value: Any) -> Any:  # noqa: ANN401, FBT001 - JSON is untyped
    if not isinstance(value, dict):
        raise MisfitError("", "should be an object")
    return {key: _inside(f"[{key!r}]", readers[1], part) for key, part in value.items()}


CONTAINERS: dict[Any, Callable[..., Any]] = {dict: _read_mapping, frozenset: _read_set, tuple: _read_tuple}


def _inside(name: str, read: Reader, value: Any) -> Any:  # noqa: ANN401 - JSON is untyped
    """Read a part of a value; an error gets the name of the part."""
    try:
        return read(value)
    except MisfitError as misfit:
        dot = "" if misfit.place.startswith("[") or not misfit.place else "."
        raise MisfitError(f"{name}{dot}{misfit.place}", misfit.problem) from None
