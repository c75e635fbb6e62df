"""What random programs are made of: verbs, each an op or a few with the law of its errors. Start with `VERBS`.

Every value has a form, and every form one shape, so any verb fits any values of its forms and every program is valid.
`n` is the size of the batch, which a program may leave unknown. Values stay moderate: no verb grows them much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tensorflow as tf
from tests.reliability.fuzz_discrete import (
    compared,
    converted,
    flags_as_numbers,
    guessed,
    inverted,
    selected,
    unknowable,
)
from tests.reliability.fuzz_laws import (
    Choice,
    Constant,
    Curve,
    Exact,
    Law,
    Polynomial,
    Steps,
    like_batch_norm,
    like_log_softmax,
    like_softmax,
)
from tests.reliability.fuzz_ops import (
    batch_norm,
    cross_entropy,
    dense_cross_entropy,
    normalised,
    pooled,
    reciprocal,
    shifted,
    shifted_up,
    widened,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.reliability.fuzz_balls import Run

FLOATS = ("rows", "image", "square", "kernel", "vector", "scalar", "cube")
"""The forms that are float32: [n, 4], [n, 4, 4, 2], [4, 4], [2, 2, 2, 2], [4], [], [2, n, 4].

Others are double (float64 [n, 4]), ints and count (int32 [n], []), flag (bool []), texts (string [n]) and sizes
(int32 [2]); and, depending on floats, flags and guess (bool [n, 4], []) and winner (int64 [n]).
"""


@dataclass(frozen=True)
class Verb:
    """One op or a few: the forms of its inputs and outputs, what it runs, and what it does to errors."""

    takes: tuple[str, ...]
    gives: tuple[str, ...]
    run: Run
    law: Law
    truth: Run | None = None  # the same in float64, where TensorFlow has no such kernel

    @property
    def compiles(self) -> bool:
        """Whether XLA can take it: it knows no strings."""
        return "texts" not in (*self.takes, *self.gives)


def verb(line: str, run: Run, law: Law, truth: Run | None = None) -> Verb:
    """Read `input input > output output`."""
    left, right = line.split(">")
    return Verb(tuple(left.split()), tuple(right.split()), run, law, truth)


def everywhere(name: str, run: Run, law: Law, inputs: int = 1, forms: str = "rows image cube") -> dict[str, Verb]:
    """An element-wise verb, once for each form."""
    return {f"{name} {form}": verb(f"{' '.join([form] * inputs)} > {form}", run, law) for form in forms.split()}


MOVE = Polynomial()  # every value goes to one place
COPY = Polynomial(back=8)  # or to a few
PRODUCT = Polynomial(terms=4, back=8)
CONVOLUTION = Polynomial(terms=8, back=None)
SPREAD = Polynomial(back=None)  # every value goes to many places
SUM = Polynomial(terms=None)

ALLOW: dict[str, Verb] = {
    "matmul": verb("rows square > rows", tf.matmul, PRODUCT),
    "matmul transposed": verb("rows square > rows", lambda a, b: tf.matmul(a, b, transpose_b=True), PRODUCT),
    "gram": verb("rows rows > square", lambda a, b: tf.matmul(a, b, transpose_a=True), PRODUCT),
    "square matmul": verb("square square > square", tf.matmul, PRODUCT),
    "batch matmul": verb("cube square > cube", tf.matmul, PRODUCT),
    "batch matmul self": verb(
        "cube cube > cube", lambda a, b: tf.matmul(tf.matmul(a, b, transpose_b=True), b), Polynomial(terms=16, back=16)
    ),
    "einsum": verb("rows square > rows", lambda a, b: tf.einsum("ij,jk->ik", a, b), PRODUCT),
    "conv": verb("image kernel > image", lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), CONVOLUTION),
    "conv strided": verb(
        "image kernel > rows",
        lambda x, k: tf.reshape(tf.nn.conv2d(x, k, 4, "SAME"), [-1, 2]) @ tf.ones([2, 4], x.dtype),
        CONVOLUTION,
    ),
    "conv transposed": verb(
        "image kernel > image", lambda x, k: tf.nn.conv2d_transpose(x, k, tf.shape(x), 1, "SAME"), CONVOLUTION
    ),
    "depthwise": verb(
        "image kernel > image", lambda x, k: tf.nn.depthwise_conv2d(x, k[..., :1], [1, 1, 1, 1], "SAME"), CONVOLUTION
    ),
}

INFER: dict[str, Verb] = {
    **everywhere("tanh", tf.tanh, Curve(1.0, 0.77)),
    **everywhere("sigmoid", tf.sigmoid, Curve(0.25, 0.1)),
    **everywhere("elu", tf.nn.elu, Curve(1.0, 1.0)),
    **everywhere("softplus", tf.nn.softplus, Curve(1.0, 0.25)),
    **everywhere("softsign", tf.nn.softsign, Curve(1.0, 2.0)),
    **everywhere("erf", tf.math.erf, Curve(1.13, 0.97)),
    **everywhere("selu", tf.nn.selu, Curve(1.76, 1.76, (0.0,))),
    **everywhere("leaky relu", tf.nn.leaky_relu, Curve(1.0, kinks=(0.0,))),
    **everywhere("gelu", tf.nn.gelu, Curve(1.13, 0.8)),
    **everywhere("sqrt", lambda x: tf.sqrt(x * x + 1.0), Curve(1.0, 1.0), forms="rows"),
    **everywhere("log1p", lambda x: tf.math.log1p(tf.abs(x)), Curve(1.0, 1.0, (0.0,))),
    **everywhere("real div", reciprocal, Curve(1.0, 2.0, (0.0,))),
    **everywhere("add", tf.add, MOVE, 2, "rows image cube square scalar"),
    **everywhere("sub", tf.subtract, Polynomial(tf.add), 2, "rows image square"),
    **everywhere("mul", tf.multiply, MOVE, 2, "rows image cube square"),
    **everywhere("add n", lambda *xs: tf.add_n(list(xs)), MOVE, 3, "rows image"),
    "bias add": verb("rows vector > rows", tf.nn.bias_add, SPREAD),
    "bias add image": verb("image vector > image", lambda x, b: tf.nn.bias_add(x, b[:2]), SPREAD),
    "add vector": verb("rows vector > rows", tf.add, SPREAD),
    "scaled": verb("rows scalar > rows", lambda x, s: x * s * 0.125, Polynomial(terms=2, back=None)),
    "avg pool": verb("image > image", pooled(tf.nn.avg_pool2d), PRODUCT),
    "prod": verb("rows > vector", lambda x: tf.reduce_prod(x, 0), Polynomial(terms=4, back=9)),
    "batch norm training": verb("image > image", batch_norm(training=True), like_batch_norm, normalised),
    "batch norm inference": verb("image > image", batch_norm(training=False), Polynomial(shifted_up), shifted),
}

DENY: dict[str, Verb] = {
    "softmax": verb("rows > rows", tf.nn.softmax, like_softmax),
    "log softmax": verb("rows > rows", tf.nn.log_softmax, like_log_softmax),
    "cross entropy": verb("rows ints > scalar", cross_entropy, like_log_softmax),
    "dense cross entropy": verb("rows ints > scalar", dense_cross_entropy, like_log_softmax),
    **everywhere("exp", lambda x: tf.exp(tf.tanh(x)), Curve(2.72, 5.0), forms="rows image"),
    **everywhere("expm1", lambda x: tf.math.expm1(-tf.abs(x)), Curve(1.0, 1.0, (0.0,)), forms="rows"),
    **everywhere("pow", lambda x: tf.pow(tf.sigmoid(x) + 0.5, 2.0), Curve(0.75, 0.5), forms="rows"),
    "sum": verb("rows > scalar", lambda x: tf.reduce_sum(x) * 0.25, SUM),
    "mean": verb("image > scalar", tf.reduce_mean, SUM),
    "mean of columns": verb("rows > vector", lambda x: tf.reduce_mean(x, 0), SUM),
    "pooled": verb("image > rows", lambda x: tf.concat([tf.reduce_mean(x, [1, 2])] * 2, 1), SUM),
    "l2 loss": verb("square > scalar", tf.nn.l2_loss, SUM),
}

CLEAR: dict[str, Verb] = {
    **everywhere("relu", tf.nn.relu, Curve(1.0, kinks=(0.0,))),
    **everywhere("relu6", tf.nn.relu6, Curve(1.0, kinks=(0.0, 6.0))),
    **everywhere("abs", tf.abs, Curve(1.0, kinks=(0.0,)), forms="rows image"),
    **everywhere("clip", lambda x: tf.clip_by_value(x, -1.0, 1.0), Curve(1.0, kinks=(-1.0, 1.0)), forms="rows image"),
    **everywhere("neg", tf.negative, Polynomial(tf.identity), forms="rows square"),
    **everywhere("identity", tf.identity, MOVE),
    **everywhere("stop gradient", tf.stop_gradient, MOVE, forms="rows"),
    **everywhere("maximum", tf.maximum, Choice(tf.add), 2, "rows image"),
    **everywhere("minimum", tf.minimum, Choice(tf.add, tf.maximum), 2, "rows cube"),
    **everywhere("floor", tf.floor, Steps(), forms="rows"),
    **everywhere("round", tf.round, Steps(), forms="rows"),
    **everywhere("zeros like", tf.zeros_like, MOVE, forms="rows"),
    "max": verb("rows > vector", lambda x: tf.reduce_max(x, 0), Choice(lambda x: tf.reduce_sum(x, 0))),
    "max pool": verb(
        "image > image", pooled(tf.nn.max_pool2d), Choice(lambda x: 4.0 * tf.nn.avg_pool2d(x, 2, 1, "SAME"))
    ),
    "widen": verb("rows > image", widened, COPY),
    "flatten": verb("image > rows", lambda x: tf.reshape(x, [-1, 32])[:, 3:7], MOVE),
    "transpose": verb("square > square", tf.transpose, MOVE),
    "roll": verb("rows > rows", lambda x: tf.roll(x, 1, 1), MOVE),
    "reverse": verb("rows > rows", lambda x: tf.reverse(x, [1]), MOVE),
    "concat": verb("rows rows > rows", lambda a, b: tf.concat([a, b], 1)[:, 2:6], MOVE),
    "split": verb("rows > rows", lambda x: tf.concat(tf.split(x, 2, 1)[::-1], 1), MOVE),
    "stack": verb("rows rows > cube", lambda a, b: tf.stack([a, b]), MOVE),
    "unstack": verb("cube > rows rows", lambda x: tf.unstack(x, 2), MOVE),
    "pad": verb("rows > rows", lambda x: tf.pad(x, [[0, 0], [2, 0]])[:, :4], MOVE),
    "mirror pad": verb("rows > rows", lambda x: tf.pad(x, [[0, 0], [1, 0]], "REFLECT")[:, :4], COPY),
    "tile": verb("rows > rows", lambda x: tf.tile(x, [1, 2])[:, 1:5], COPY),
    "broadcast": verb("vector rows > rows", lambda v, x: tf.broadcast_to(v, tf.shape(x)), SPREAD),
    "gather": verb("square ints > rows", tf.gather, SPREAD),
    "gather columns": verb("rows count > rows", lambda x, i: tf.gather(x, [i, 3, i, 0], axis=1), COPY),
    "select": verb("flags rows rows > rows", tf.where, selected),
    "band": verb("square > square", lambda x: tf.linalg.band_part(x, 1, 0), MOVE),
    "identity n": verb("rows image > rows image", lambda a, b: tf.identity_n([a, b]), MOVE),
}

UNLISTED: dict[str, Verb] = {
    **everywhere("sin", tf.sin, Curve(1.0, 1.0)),
    **everywhere("atan", tf.atan, Curve(1.0, 0.65), forms="rows"),
    **everywhere("rsqrt", lambda x: tf.math.rsqrt(tf.square(x) + 1.0), Curve(0.39, 1.0), forms="rows"),
    **everywhere("squared difference", tf.math.squared_difference, Polynomial(lambda a, b: (a + b) ** 2), 2, "rows"),
    "cumsum": verb("rows > rows", lambda x: tf.cumsum(x, 1), PRODUCT),
}

OTHER: dict[str, Verb] = {
    "through float16": verb("rows > rows", *converted("float16")),
    "through bfloat16": verb("rows > rows", *converted("bfloat16")),
    "to double": verb("rows > double", lambda x: tf.cast(x, tf.float64), MOVE),
    "from double": verb("double > rows", lambda x: tf.cast(x, tf.float32), MOVE, tf.identity),
    "double": verb("double double > double", tf.multiply, MOVE),
    "numbers of ints": verb("ints > rows", lambda i: tf.cast(i, tf.float32)[:, None] * tf.ones([1, 4]), Constant()),
    "one hot": verb("ints > rows", lambda i: tf.one_hot(i, 4), Constant()),
    "greater": verb("rows rows > flags", tf.greater, compared),
    "not": verb("flags > flags", tf.logical_not, inverted),
    "numbers of flags": verb("flags > rows", lambda f: tf.cast(f, tf.float32), flags_as_numbers),
    "guess": verb("rows > guess", lambda x: tf.reduce_sum(x) > 0.0, guessed),
    "winner": verb("rows > winner", lambda x: tf.argmax(x, 1), unknowable),
    "shape": verb("rows > sizes", tf.shape, Exact()),
    "next ints": verb("ints count > ints", lambda i, c: (i + c) % 4, Exact()),
    "opposite": verb("flag > flag", tf.logical_not, Exact()),
    "texts": verb("ints > texts", tf.strings.as_string, Exact()),
    "join": verb("texts texts > texts", lambda a, b: tf.strings.join([a, b], "-"), Exact()),
}

GROUPS: dict[str, dict[str, Verb]] = {
    "allow": ALLOW,
    "infer": INFER,
    "deny": DENY,
    "clear": CLEAR,
    "unlisted": UNLISTED,
    "other": OTHER,
}
VERBS: Mapping[str, Verb] = {name: verb for group in GROUPS.values() for name, verb in group.items()}
TOTAL = {form: verb(f"{form} > scalar", tf.reduce_sum, SUM) for form in FLOATS}
LOSS = verb(f"{' scalar' * len(TOTAL)} > scalar", lambda *sums: tf.add_n(sums), Polynomial(terms=len(TOTAL)))
"""What a gradient is taken of: the sums of all floats, added up."""
