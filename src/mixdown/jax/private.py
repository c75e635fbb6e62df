"""The private names of JAX that mixdown uses. Nothing else in the package names one; each is looked up, not assumed.

Checked on the releases of `TESTED`. What is only for people (scopes, source lines) is left out where JAX lacks it; what
the hook needs is asked for by `missing_for_hook`, so that `enable` can say why it cannot work. `rewrite` needs
`get_bind_params` alone, and only for primitives that hold functions; `abstract_eval` saves it time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from typing import Any

import jax

TESTED = ("0.7", "0.10")
"""The oldest and the newest release on which these were checked."""


_LIBRARY = re.compile(r"[/\\](?:flax|optax|equinox|keras|haiku|chex|mixdown)[/\\]")


@cache
def _found(module: str, name: str) -> Any:
    """A name of a module of JAX, None if this JAX has none."""
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def scope_of(equation: Any) -> str:
    """The named scopes and transformations that an equation was traced in, such as `transpose(jvp(MLP))/Dense_0`."""
    return str(equation.source_info.name_stack)


def line_of(origin: Iterable[Any]) -> str:
    """The user's line behind an equation, given its source info and those of the equations around it, "" if unknown."""
    user_frames = _found("jax._src.source_info_util", "user_frames")
    frames = [] if user_frames is None else [frame for info in origin for frame in user_frames(info.traceback)]
    own = (frame for frame in frames if not _LIBRARY.search(frame.file_name))
    frame = next(own, frames[0] if frames else None)
    return "" if frame is None else f"{frame.file_name}:{frame.start_line}, in {frame.function_name}"


class AsTraced:
    """Gives what is traced inside the scopes, source line, mesh and settings of an equation.

    Every equation is traced in one: a class takes half the time of a generator.
    """

    __slots__ = ("_named", "_settings")

    def __init__(self, equation: Any) -> None:
        user_context = _found("jax._src.source_info_util", "user_context")
        current = _found("jax._src.source_info_util", "current_name_stack")
        self._named: Any = nullcontext()
        if user_context is not None and current is not None:
            info = equation.source_info
            self._named = user_context(info.traceback, name_stack=current() + info.name_stack)
        self._settings = equation.ctx.manager

    def __enter__(self) -> None:
        self._named.__enter__()
        self._settings.__enter__()

    def __exit__(self, *error: object) -> None:
        self._settings.__exit__(*error)
        self._named.__exit__(*error)


def inside(outer: Any, inner: Any) -> Any:
    """The source info of an equation whose jaxpr is called by an equation with another one: the scopes of both."""
    replace = getattr(inner, "replace", None)
    return inner if replace is None else replace(name_stack=outer.name_stack + inner.name_stack)


def result_types(equation: Any, operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """The types of what an equation would make of operands of these types, with these parameters."""
    primitive = equation.primitive
    evaluate = getattr(primitive, "abstract_eval", None)
    with equation.ctx.manager:
        if evaluate is None:
            return list(jax.make_jaxpr(lambda *values: bind(primitive, values, params))(*operands).out_avals)
        found = evaluate(*operands, **params)[0]
    return found if primitive.multiple_results else [found]


def bind(
    primitive: Any, operands: Sequence[Any], params: dict[str, Any], functions: Sequence[Any] | None = None
) -> Any:
    """Bind a primitive with the parameters of an equation, and other functions in place of its own if some are given.

    The functions are passed apart from the other parameters: before the operands up to JAX 0.9, by name since.
    """
    own, rest = split_functions(primitive, params)
    functions = own if functions is None else functions
    if not functions:
        return primitive.bind(*operands, **rest)
    if _binds_by_name(primitive, params):
        return primitive.bind(*operands, **rest, subfuns=tuple(functions))
    return primitive.bind(*functions, *operands, **rest)


def split_functions(primitive: Any, params: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The functions among the parameters of an equation, and the other parameters."""
    found = primitive.get_bind_params(params)
    if isinstance(found, tuple):
        return tuple(found[0]), found[1]
    if "subfuns" not in found:
        return (), found
    rest = dict(found)
    return tuple(rest.pop("subfuns", ())), rest


def _binds_by_name(primitive: Any, params: dict[str, Any]) -> bool:
    return not isinstance(primitive.get_bind_params(params), tuple)


def missing_for_hook() -> str:
    """What this JAX lacks of what the hook needs, "" if nothing."""
    if _found("jax._src.interpreters.pxla", "lower_sharding_computation") is None:
        return "jax._src.interpreters.pxla.lower_sharding_computation"
    if not hasattr(jax, "make_user_context"):
        return "jax.make_user_context"
    return "" if _setter(jax.make_user_context(None)) else "a way to set a user context for all threads"


def _setter(context: Any) -> Callable[[Any], None] | None:
    """Sets a user context for all threads: public since JAX 0.10."""
    return getattr(context, "set_global", None) or getattr(getattr(context, "_obj", None), "set_global", None)


def set_for_all_threads(context: Any, value: Any) -> None:
    """Set a user context for all threads; `missing_for_hook` has said that this can be done."""
    setter = _setter(context)
    assert setter is not None, "asked for before it was looked for"  # noqa: S101 - a bug of ours
    setter(value)


def wrap_lowering(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put a wrapper around the function by which every jitted program is lowered. It takes a closed jaxpr first."""
    pxla: Any = import_module("jax._src.interpreters.pxla")
    pxla.lower_sharding_computation = wrap(pxla.lower_sharding_computation)


def is_for_export(keywords: dict[str, Any]) -> bool:
    """Whether a program is lowered to be exported, given the keyword arguments of the function that lowers it."""
    return bool(getattr(keywords.get("lowering_parameters"), "for_export", False))


def manual_axes(params: dict[str, Any]) -> set[str]:
    """The axes that a `shard_map` maps over, by the parameters of its equation: another name since JAX 0.10."""
    return set(params.get("newly_manual_axes", params.get("manual_axes", ())))
