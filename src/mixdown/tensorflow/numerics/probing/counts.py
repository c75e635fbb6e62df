"""The probe behind `statistics` and `calibrate`: counts the float32 numbers of chosen tensors, see `summary`.

Counting is done on the bits of numbers as integers, so that it is exact also with kernels that treat subnormal numbers
as zero. A tensor with numbers that float16 cannot hold, or that are subnormal in float32, is counted in a slower way.
"""

from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from mixdown.core import Category, Paint, Plan, Role
from mixdown.numerics.tally import Tally
from mixdown.rules.formats import BIAS, BOUNDARIES, EXPONENTS, FLOAT16, INF
from mixdown.tensorflow.numerics.probing.channel import HOST, Channel
from mixdown.tensorflow.numerics.probing.probed_function import MOVERS, Key, ProbedFunction
from mixdown.tensorflow.numerics.probing.trees import ProbedTree

SAME_SIZES = MOVERS | {"Neg"}
"""Kinds whose output is counted with their input, because it holds numbers of the same sizes."""

WITHOUT_SIGN = 0x7FFFFFFF
MANTISSA_BITS = 23
SMALLEST_NORMAL = 1 << MANTISSA_BITS


class Counts:
    """Tallies of the tensors that the 16-bit ops of a policy read and make; if `denied`, its denied ops too.

    Arguments of inner functions, which are the same values as outside, are counted if `inner`.
    """

    def __init__(self, *, inner: bool = False, denied: bool = False) -> None:
        self._inner, self._denied = inner, denied
        self.tallies: dict[Key, Tally] = {}
        self.plans: list[Plan] = []
        self._channel = Channel[list[Key]](tf.int32)
        self.channels: tuple[Channel[Any], ...] = (self._channel,)

    def instrument(self, tree: ProbedTree) -> None:
        """See `runs.Probe`."""
        self.plans.append(tree.plan)
        chosen = self._chosen(tree)
        for function in tree.functions:
            if function.can_be_probed and (own := _distinct(function, chosen.get(function.number, {}))):
                packed = function.pack([_counted(function, text) for text in own], tf.int32, HOST)
                function.run_also(self._channel.send(function, packed, list(own.values())))

    def _chosen(self, tree: ProbedTree) -> dict[int, dict[str, Key]]:
        """Per function, the tensors to count: how nodes name them, and what they are."""
        plan, graph = tree.plan, tree.plan.graph
        by_name = {function.original: function for function in tree.functions}
        wanted = [paint is Paint.LOW for paint in plan.paints]
        if self._denied:
            wanted = [w or c is Category.DENY for w, c in zip(wanted, plan.view.categories, strict=True)]
        out: dict[int, dict[str, Key]] = {}
        for tensor in graph.tensors:
            key = Key.of(graph, tensor)
            function, is_argument = by_name[key.function], key.kind == "_Arg"
            is_conduit = graph.sites[tensor.site].role is Role.CONDUIT
            inner_end = is_conduit and not (is_argument and (self._inner or function.number == 0))
            if not inner_end and any(wanted[site] for site in (tensor.site, *tensor.consumers)):
                text = key.op if is_argument else function.outputs[key.op][key.output].text
                out.setdefault(function.number, {})[text] = key
        return out

    def collect(self) -> None:
        """See `runs.Probe`."""
        for keys, rows in self._channel.records():
            for key, row in zip(keys, rows.tolist(), strict=True):
                tally = Tally.from_vector(row)
                self.tallies[key] = self.tallies[key] + tally if key in self.tallies else tally


def _distinct(function: ProbedFunction, chosen: dict[str, Key]) -> dict[str, Key]:
    """The chosen tensors of a function without those that are never made, or hold the numbers of another one."""
    made = {port.text for port in function.arguments}
    for node in function.live:
        if node.op not in SAME_SIZES or function.inputs[node.name][0].text not in chosen:
            made.update(port.text for port in function.outputs[node.name])
    return {text: key for text, key in chosen.items() if text in made}


def _counted(function: ProbedFunction, tensor: str) -> str:
    called = AttrValue(func={"name": summary().name})
    return function.add("PartitionedCall", (tensor,), f=called, Tin=(tf.float32,), Tout=(tf.int32,)) + ":output:0"


@cache
def summary() -> Any:
    """The function that counts one tensor: what `Tally.from_vector` reads."""
    return tf.function(_summary, input_signature=[tf.TensorSpec(None, tf.float32)]).get_concrete_function()


def _summary(tensor: tf.Tensor) -> tf.Tensor:
    numbers = tf.reshape(tensor, [-1])
    rounded = tf.cast(tf.cast(numbers, tf.float16), tf.float32)
    # Of two numbers of one sign, the bits of the larger one are the larger integer: a number that float16 keeps is
    # counted as it rounds it, one that float16 flushes to zero is counted as it is.
    histogram = _histogram(tf.maximum(_bits(numbers), _bits(rounded)))
    one = tf.constant(1, tf.uint32)
    doubled = tf.bitwise.left_shift(tf.bitcast(numbers, tf.uint32), one)  # without the sign, and in the order of sizes
    smallest = tf.bitwise.right_shift(tf.reduce_min(doubled - one) + one, one)  # of those that are not zero
    smallest = tf.bitcast(smallest, tf.int32)
    plain = (histogram[-1] == 0) & ((smallest >= SMALLEST_NORMAL) | (smallest == 0))
    return tf.concat(
        [tf.cond(plain, lambda: _usual(numbers, histogram), lambda: _unusual(numbers, rounded)), smallest[None]], 0
    )


def _usual(numbers: tf.Tensor, histogram: tf.Tensor) -> tf.Tensor:
    """The histogram, counts and largest number, if float16 holds all and only zeros are subnormal in float32.

    All boundaries but those between float16's classes lie beyond these numbers, and those between float16's classes are
    powers of two once numbers are rounded.
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
    signed = tf.bitwise.right_shift(tf.bitcast(bits, tf.uint32), tf.constant(MANTISSA_BITS, tf.uint32))
    counts = tf.raw_ops.Bincount(
        arr=tf.bitcast(signed, tf.int32), size=2 * EXPONENTS, weights=tf.constant([], tf.int32)
    )
    return counts[:EXPONENTS] + counts[EXPONENTS:]


def _bits(numbers: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(numbers, tf.int32)
