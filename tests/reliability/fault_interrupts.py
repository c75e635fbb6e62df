"""KeyboardInterrupt at chosen moments: before, between and after the lines that mixdown runs. Start with `interrupted`.

A moment is a number: the n-th event (call, line or return) in some functions of mixdown, given by their names, or the
n-th call of any of its functions.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from contextlib import contextmanager
from functools import cache
from inspect import CO_GENERATOR
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Private: the functions that TensorFlow has registered. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager import context as eager_context

import mixdown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

PACKAGE = str(Path(mixdown.__file__).parent)

LEAVES_A_BLOCK = ("with ", "if running:", "gc.enable()", "del stack[depth:]")
"""How lines begin at which Python cannot be interrupted, though they can be traced. It looks for signals after calls
and at jumps backwards: there is neither between the end of a `with` block and its exit, nor between the start of the
`finally` blocks that restart the collector or take back a policy and their effect."""


def count_moments(call: Callable[[], Any], places: Collection[str] = ()) -> int:
    """How many moments a call has: events in these functions, or calls of any function if none are given."""
    seen: list[None] = []
    with _watching(lambda: seen.append(None), places):
        call()
    return len(seen)


def interrupted(call: Callable[[], Any], moment: int, places: Collection[str] = ()) -> bool:
    """Make a call that is interrupted at a moment; returns whether it was."""
    left = moment

    def on_event() -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise KeyboardInterrupt

    try:
        with _watching(on_event, places):
            call()
    except KeyboardInterrupt:
        return True
    return False


@contextmanager
def _watching(on_event: Callable[[], None], places: Collection[str]) -> Iterator[None]:
    """Report events in mixdown's code in this thread."""

    def inside(frame: Any, event: str, _: Any) -> Any:
        if _may_be_interrupted(frame, event):
            on_event()
        return inside

    def outside(frame: Any, event: str, _: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or (places and code.co_name not in places):
            return None
        if _is_in_a_finalizer(frame):
            return None
        inside(frame, event, None)
        return inside if places else None

    before = sys.gettrace()
    sys.settrace(outside)
    try:
        yield
    finally:
        sys.settrace(before)


def _may_be_interrupted(frame: Any, event: str) -> bool:
    """Whether a signal could be heard there. A generator is entered and left many times: only its lines count."""
    if event == "exception" or (event != "line" and frame.f_code.co_flags & CO_GENERATOR):
        return False
    return frame.f_lineno not in _left_at(frame.f_code.co_filename)


def _is_in_a_finalizer(frame: Any) -> bool:
    """Whether Python would print an exception and go on. When garbage is collected depends on all that ran before."""
    while frame is not None and frame.f_code is not weakref.finalize.__call__.__code__:
        frame = frame.f_back
    return frame is not None


@cache
def _left_at(file: str) -> frozenset[int]:
    """The lines of a file at which blocks are left."""
    lines = Path(file).read_text("utf-8").splitlines()
    return frozenset(number for number, line in enumerate(lines, 1) if line.lstrip().startswith(LEAVES_A_BLOCK))


def registered(*, after_collecting: bool = True) -> set[str]:
    """The names of all functions TensorFlow holds, without its own wrappers of single eager ops."""
    if after_collecting:
        gc.collect()
    names = eager_context.context().list_function_names()
    return {name for name in names if not name.startswith("__wrapped__")}


def in_another_thread(call: Callable[[], Any]) -> Any:
    """What a call returns in another thread: a lock that was left behind would keep it waiting."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert results, "the other thread waits for ever, or failed"
    return results[0]
