"""The probe behind `statistics`: counts the float32 numbers of chosen tensors. Start with `summary`.

Counting is done on the bits of numbers as integers. It is exact, and no kernel's habit of treating subnormal numbers
as zero can touch it. Numbers that float16 cannot hold, and those that are subnormal in float32, take a slower way.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from mixdown.core import Category, Paint, Role
from mixdown.numerics.formats import BIAS, BOUNDARIES, EXPONENTS, FLOAT16, INF
from mixdown.numerics.tally import Tally
from mixdown.tensorflow.numerics.probing.channel import HOST, Channel
from mixdown.tensorflow.numerics.probing.health import MOVERS
from mixdown.tensorflow.numerics.probing.probed_function import a_type

if TYPE_CHECKING:
    from mixdown.core import Plan
    from mixdown.tensorflow.numerics.probing.probed_function import Sheet
    from mixdown.tensorflow.numerics.probing.trees import Tree

SAME_SIZES = MOVERS | {"Neg"}
"""Kinds whose output is counted with their input, because it holds numbers of the same sizes."""

WITHOUT_SIGN = 0x7FFFFFFF
MANTISSA_BITS = 23
SMALLEST_NORMAL = 1 << MANTISSA_BITS


class Key(NamedTuple):
    """A tensor across calls."""

    op: str
    kind: str
    output: int
    function: str


class Scope(NamedTuple):
    """What is counted beside the tensors that low ops make."""

    inner: bool = False  # arguments of inner functions too, though they are the same values as outside
    denied: bool = False  # what denied ops read and make too


class Counts:
    """Tallies of the tensors that a policy makes low."""

    def __init__(self, scope: Scope | None = None) -> None:
        self._scope = scope or Scope()
        self.tallies: dict[Key, Tally] = {}
        self.plans: list[Plan] = []
        self._channel = Channel(tf.int32, tf.int32)
        self._columns: dict[tuple[bytes, int], list[Key]] = {}

    def instrument(self, tree: Tree) -> None:
        """See `runs.Probe`."""
        self.plans.append(tree.plan)
        chosen = tensors(tree, self._scope)
        for sheet in tree.sheets:
            if sheet.can_be_probed and (own := _distinct(sheet, chosen.get(sheet.number, {}))):
                self._columns[tree.name, sheet.number] = list(own.values())
                packed = sheet.pack([_counted(sheet, text) for text in own], tf.int32, HOST)
                sheet.run_also([self._channel.write(sheet, (sheet.constant(sheet.number, tf.int32), packed))])

    def collect(self, tree: Tree) -> None:
        """See `runs.Probe`."""
        for number, rows in self._channel.records():
            columns = self._columns[tree.name, int(number)]
            for key, row in zip(columns, rows.numpy().tolist(), strict=True):
                tally = Tally.from_vector(row)
                self.tallies[key] = self.tallies[key] + tally if key in self.tallies else tally

    def close(self) -> None:
        """See `runs.Probe`."""
        self._channel.close()


def tensors(tree: Tree, scope: Scope) -> dict[int, dict[str, Key]]:
    """Per sheet, the tensors that low sites of the plan make or read: how nodes name them, and what they are."""
    plan, graph = tree.plan, tree.plan.graph
    by_function = {sheet.original: sheet for sheet in tree.sheets}
    wanted = [paint is Paint.LOW for paint in plan.paints]
    if scope.denied:
        wanted = [w or c is Category.DENY for w, c in zip(wanted, plan.view.categories, strict=True)]
    out: dict[int, dict[str, Key]] = {}
    for tensor in graph.tensors:
        site = graph.sites[tensor.site]
        op, sheet = graph.ops[site.op], by_function[graph.ops[site.op].function]
        inner_end = site.role is Role.CONDUIT and not (op.kind == "_Arg" and (scope.inner or sheet.number == 0))
        if inner_end or not any(wanted[site] for site in (tensor.site, *tensor.consumers)):
            continue
        output = int(tensor.name.rpartition(":")[2])
        text = op.name if op.kind == "_Arg" else sheet.outputs[op.name][output].text
        out.setdefault(sheet.number, {})[text] = Key(op.name, op.kind, output, op.function)
    return out


def _distinct(sheet: Sheet, chosen: dict[str, Key]) -> dict[str, Key]:
    """The tensors of a function that run at all and hold numbers of their own."""
    run = {port.text for node in sheet.live for port in sheet.outputs[node.name]}
    run |= {port.text for port in sheet.arguments}
    moved = {
        port.text
        for node in sheet.live
        if node.op in SAME_SIZES and sheet.inputs[node.name][0].text in chosen
        for port in sheet.outputs[node.name]
    }
    return {text: key for text, key in chosen.items() if text in run - moved}


def _counted(sheet: Sheet, tensor: str) -> str:
    called = AttrValue(func={"name": summary().name})
    types = {"Tin": _types(tf.float32), "Tout": _types(tf.int32)}
    return sheet.add("PartitionedCall", (tensor,), f=called, **types) + ":output:0"


def _types(dtype: Any) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(type=[a_type(dtype).type]))


@cache
def summary() -> Any:
    """The function that counts one tensor: what `Tally.from_vector` reads."""
    return tf.function(_summary, input_signature=[tf.TensorSpec(None, tf.float32)]).get_concrete_function()


def _summary(tensor: tf.Tensor) -> tf.Tensor:
    numbers = tf.reshape(tensor, [-1])
    rounded = tf.cast(tf.cast(numbers, tf.float16), tf.float32)
    # Of two numbers of one sign, the bits of the larger one are the larger integer: what float16 keeps counts as it
    # rounds it, what it flushes to zero counts as it is.
    histogram = _histogram(tf.maximum(_bits(numbers), _bits(rounded)))
    doubled = tf.bitwise.left_shift(tf.bitcast(numbers, tf.uint32), _unsigned(1))  # no sign, and in the order of sizes
    smallest = tf.bitwise.right_shift(tf.reduce_min(doubled - _unsigned(1)) + _unsigned(1), _unsigned(1))  # but zero
    smallest = tf.bitcast(smallest, tf.int32)
    plain = (histogram[-1] == 0) & ((smallest >= SMALLEST_NORMAL) | (smallest == 0))
    return tf.concat(
        [tf.cond(plain, lambda: _usual(numbers, histogram), lambda: _unusual(numbers, rounded)), smallest[None]], 0
    )


def _usual(numbers: tf.Tensor, histogram: tf.Tensor) -> tf.Tensor:
    """The histogram, the counts and the largest, where float16 holds all and nothing but zeros is subnormal in float32.

    All boundaries but those between float16's classes lie beyond, and these are powers of two once numbers are rounded.
    """
    reached = tf.concat([tf.cumsum(histogram, reverse=True), [0]], 0)
    places = {FLOAT16.kept: BIAS - 24, FLOAT16.normal: BIAS - 14}
    at_least = [places.get(edge, 1 if edge < SMALLEST_NORMAL else EXPONENTS) for edge in BOUNDARIES]
    largest = _bits(tf.maximum(tf.reduce_max(numbers), -tf.reduce_min(numbers)))
    return tf.concat([histogram, tf.gather(reached, at_least), largest[None]], 0)


def _unusual(numbers: tf.Tensor, rounded: tf.Tensor) -> tf.Tensor:
    """The same for any numbers."""
    bits = tf.bitwise.bitwise_and(_bits(numbers), WITHOUT_SIGN)
    rounded = tf.where(tf.math.is_finite(rounded), rounded, numbers)
    histogram = _histogram(tf.maximum(_bits(numbers), _bits(rounded)))
    reached = [tf.reduce_sum(tf.cast(bits >= edge, tf.int32)) for edge in BOUNDARIES]
    largest = tf.reduce_max(tf.where(bits < INF, bits, tf.zeros_like(bits)))
    return tf.concat([histogram, tf.stack([*reached, largest])], 0)


def _histogram(bits: tf.Tensor) -> tf.Tensor:
    """How many numbers have each exponent."""
    signed = tf.bitwise.right_shift(tf.bitcast(bits, tf.uint32), _unsigned(MANTISSA_BITS))
    counts = tf.raw_ops.Bincount(
        arr=tf.bitcast(signed, tf.int32), size=2 * EXPONENTS, weights=tf.constant([], tf.int32)
    )
    return counts[:EXPONENTS] + counts[EXPONENTS:]


def _bits(numbers: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(numbers, tf.int32)


def _unsigned(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint32)
