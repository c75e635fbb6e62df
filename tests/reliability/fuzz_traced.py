"""Programs in TensorFlow: the stage that traces them, and the inputs they are given. Start with `Traced`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tests.reliability.fuzz_balls import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.reliability.fuzz_programs import Block
    from tests.reliability.fuzz_verbs import Verb

MOST_ROUNDS = 3
plain = tf.autograph.experimental.do_not_convert  # a graph outside of any function would have bodies converted
SHAPES: Mapping[str, tuple[int | None, ...]] = {
    "rows": (None, 4),
    "image": (None, 4, 4, 2),
    "square": (4, 4),
    "kernel": (2, 2, 2, 2),
    "vector": (4,),
    "scalar": (),
    "cube": (2, None, 4),
    "double": (None, 4),
    "ints": (None,),
    "count": (),
    "flag": (),
    "flags": (None, 4),
    "guess": (),
    "texts": (None,),
}
"""What a program is given: one value of each of these forms; None is the batch."""
DTYPES = {"double": "float64", "ints": "int32", "count": "int32", "texts": "string"}
DTYPES |= dict.fromkeys(("flag", "flags", "guess"), "bool")
SPANS = {"square": 0.6, "kernel": 0.5}  # factors of products are small, so that products do not grow


def dtype_of(form: str) -> str:
    """The dtype of a form."""
    return DTYPES.get(form, "float32")


def given(batch: int, seed: int, *, texts: bool = True) -> dict[str, Any]:
    """Values to call a program with."""
    dice = np.random.default_rng(seed)
    forms = [form for form in SHAPES if texts or form != "texts"]
    return {form: _value(dice, form, [batch if size is None else size for size in SHAPES[form]]) for form in forms}


def _value(dice: np.random.Generator, form: str, shape: Sequence[int]) -> Any:
    match dtype_of(form):
        case "bool":
            return dice.random(shape) < 0.5
        case "int32":
            return dice.integers(0, 4, shape).astype(np.int32)
        case "string":
            return np.array([f"text {number}".encode() for number in range(shape[0])], object)
        case dtype:
            span = SPANS.get(form, 1.5)
            return dice.uniform(-span, span, shape).astype(dtype)


def signature(inputs: Mapping[str, Any], *, unknown: bool) -> dict[str, tf.TensorSpec]:
    """How a program's function is declared: for these inputs, or for any size of batch."""
    return {
        form: tf.TensorSpec(SHAPES[form] if unknown else np.shape(value), dtype_of(form), form)
        for form, value in inputs.items()
    }


class Traced:
    """Carries out a program while TensorFlow traces it; names tell which op belongs to which step."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def say(self, label: str, verb: Verb, inputs: Sequence[Any]) -> list[Any]:
        with tf.name_scope(label):
            return listed(verb.run(*inputs))

    def read(self, label: str) -> Any:
        with tf.name_scope(label):
            return tf.convert_to_tensor(self.variable)

    def store(self, label: str, value: Any) -> None:
        with tf.name_scope(label):
            self.variable.assign_add(value)

    def call(self, body: Block, rows: Any) -> Any:
        return tf.function(body, autograph=False)(rows)

    def cond(self, flag: Any, yes: Block, no: Block, rows: Any) -> Any:
        return tf.cond(flag, lambda: yes(rows), lambda: no(rows))

    def case(self, index: Any, branches: Sequence[Block], rows: Any) -> Any:
        thunks = [lambda branch=branch: branch(rows) for branch in branches]
        return tf.switch_case(index, thunks)

    def loop(self, count: Any, body: Block, rows: Any) -> Any:
        def step(index: Any, value: Any) -> Any:
            made = body(value)
            made.set_shape(rows.shape)
            return index + 1, made

        start = (tf.constant(0), rows)
        return tf.while_loop(lambda index, _: index < count, plain(step), start, maximum_iterations=MOST_ROUNDS)[1]

    def map(self, body: Block, cube: Any) -> Any:
        out = tf.map_fn(plain(body), cube)
        out.set_shape(cube.shape)
        return out
