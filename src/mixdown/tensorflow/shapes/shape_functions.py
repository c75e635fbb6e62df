"""The shapes that ops of the commonest kinds make, as TensorFlow's own shape functions infer them: `FUNCTIONS`.

TensorFlow has to import a graph before it infers anything, which takes longer than all of this. A function returns None
where TensorFlow has to be asked: the arguments do not fit, or are not known well enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mixdown.core.graph import Shape
from mixdown.rules.rule_set import kinds
from mixdown.tensorflow.protos.wiring import Source
from mixdown.tensorflow.shapes.known_values import Known, Value

Dims = tuple[int | None, ...]
Shapes = tuple[Shape, ...] | None
Function = Callable[[Known, Any, Sequence[Source]], Shapes]


def merged(one: Dims, other: Dims) -> Dims | None:
    """The shape that two shapes of the same value come to; None if they contradict each other."""
    if len(one) != len(other) or any(a != b for a, b in zip(one, other, strict=True) if None not in (a, b)):
        return None
    return tuple(b if a is None else a for a, b in zip(one, other, strict=True))


def broadcast(one: Dims, other: Dims) -> Dims | None:
    """The shape that two shapes are broadcast to; None if they cannot be."""
    if one == other and None not in one:
        return one
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    start = len(longer) - len(shorter)
    out = list(longer[:start])
    for a, b in zip(longer[start:], shorter, strict=True):
        if b in (a, 1):
            out.append(a)
        elif a == 1:
            out.append(b)
        elif a is None or b is None:
            out.append(b if a is None else a)
        else:
            return None
    return tuple(out)


def input_shapes(known: Known, sources: Sequence[Source], count: int = 0) -> list[Dims] | None:
    """The shapes of the first inputs, or of all; None if the rank of one is not known."""
    out = []
    for source in sources[:count] if count else sources:
        shape = known.shape(source)
        if shape is None:
            return None
        out.append(shape)
    return out


def first_shape(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    """The output has the shape of the first input."""
    return (known.shape(sources[0]),)


def _each(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    return tuple(known.shape(source) for source in sources)


def folded(combine: Callable[[Dims, Dims], Dims | None]) -> Function:
    """The output has the shape that two shapes at a time are combined to."""

    def function(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
        shapes = input_shapes(known, sources)
        if shapes is None:
            return None
        out: Dims | None = shapes[0]
        for shape in shapes[1:]:
            out = None if out is None else combine(out, shape)
        return None if out is None else (out,)

    return function


def _comparison(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    strict = "incompatible_shape_error" not in node.attr or node.attr["incompatible_shape_error"].b
    return folded(broadcast)(known, node, sources) if strict else None


def _const(_known: Known, node: Any, _sources: Sequence[Source]) -> Shapes:
    return _noted(node.attr["value"].tensor.tensor_shape)


def _placeholder(_known: Known, node: Any, _sources: Sequence[Source]) -> Shapes:
    return _noted(node.attr["shape"].shape) if "shape" in node.attr else None


def _noted(shape: Any) -> Shapes:
    sizes = [dim.size for dim in shape.dim]
    if shape.unknown_rank or min(sizes, default=0) < -1:
        return None
    return (tuple(None if size < 0 else size for size in sizes),)


def _product(flip_left: str, flip_right: str) -> Function:
    def function(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
        shapes = input_shapes(known, sources)
        if shapes is None or min(map(len, shapes)) < 2 or (node.op == "MatMul" and max(map(len, shapes)) > 2):  # noqa: PLR2004 - of a matrix
            return None
        (left, right), attr = shapes, node.attr
        rows, inner = left[-2:] if flip_left not in attr or not attr[flip_left].b else left[:-3:-1]
        other, columns = right[-2:] if flip_right not in attr or not attr[flip_right].b else right[:-3:-1]
        batch = broadcast(left[:-2], right[:-2])
        if batch is None or (inner != other and None not in (inner, other)):
            return None
        return ((*batch, rows, columns),)

    return function


def _axes(known: Known, source: Source, rank: int) -> set[int] | None:
    axes = known.value(source)
    if axes is None or not all(axis is not None and -rank <= axis < rank for axis in axes):
        return None
    return {(axis or 0) % rank for axis in axes}


def _reduction(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shape = known.shape(sources[0])
    axes = None if shape is None else _axes(known, sources[1], len(shape))
    if shape is None or axes is None:
        return None
    if "keep_dims" in node.attr and node.attr["keep_dims"].b:
        return (tuple(1 if axis in axes else size for axis, size in enumerate(shape)),)
    return (tuple(size for axis, size in enumerate(shape) if axis not in axes),)


def _scalar(_known: Known, _node: Any, _sources: Sequence[Source]) -> Shapes:
    return ((),)


def _key_and_counter(_known: Known, _node: Any, _sources: Sequence[Source]) -> Shapes:
    return ((1,), (2,))


def by_value(position: int) -> Function:
    """The shape is the value of an input."""

    def function(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
        return sizes(known.value(sources[position]))

    return function


def sizes(value: Value | None) -> Shapes:
    """Integers as the shape of the only output."""
    if value is None or any(size is not None and size < 0 for size in value):
        return None
    return (value,)


def _shape_vector(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shapes = input_shapes(known, sources)
    return None if shapes is None else tuple((len(shape),) for shape in shapes)


def _cross_entropy(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shapes = input_shapes(known, sources)
    if shapes is None or [len(shape) for shape in shapes] != [2, 1]:
        return None
    rows = merged(shapes[0][:1], shapes[1])
    return None if rows is None else (rows, (rows[0], shapes[0][1]))


def _select(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    choice = known.shape(sources[0])
    return None if choice is None else folded(merged)(known, node, sources if choice else sources[1:])


def _two_vectors(_known: Known, _node: Any, _sources: Sequence[Source]) -> Shapes:
    return ((None,), (None,))


_UNCHANGED = kinds("""
    Abs Cast Ceil Cos Cumsum Elu Erf Erfc Exp Expm1 Floor Identity Inv LeakyRelu Log Log1p Neg OnesLike PreventGradient
    Reciprocal Relu Relu6 Round Rsqrt RsqrtGrad Selu Sigmoid SigmoidGrad Sign Sin Snapshot Softplus Softsign Sqrt
    SqrtGrad Square StopGradient Tanh TanhGrad ZerosLike
""")
_MERGED = kinds("AddN EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad SoftsignGrad")
_BROADCAST = kinds("""
    Add AddV2 Div DivNoNan FloorDiv FloorMod Greater GreaterEqual Less LessEqual Maximum Minimum Mul MulNoNan Pow
    RealDiv SelectV2 SquaredDifference Sub
""")
_RANDOM = kinds("StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2")

FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(_UNCHANGED, first_shape),
    **dict.fromkeys(_MERGED, folded(merged)),
    **dict.fromkeys(_BROADCAST, folded(broadcast)),
    **dict.fromkeys(("Equal", "NotEqual"), _comparison),
    **dict.fromkeys(("Softmax", "LogSoftmax"), first_shape),
    **dict.fromkeys(("Mean", "Sum", "Max", "Min", "Prod", "All", "Any"), _reduction),
    **dict.fromkeys(("BatchMatMulV2", "BatchMatMulV3"), _product("adj_x", "adj_y")),
    **dict.fromkeys(_RANDOM, by_value(0)),
    **dict.fromkeys(("Shape", "ShapeN"), _shape_vector),
    "BroadcastGradientArgs": _two_vectors,
    "Const": _const,
    "Fill": by_value(0),
    "IdentityN": _each,
    "InvertPermutation": first_shape,
    "MatMul": _product("transpose_a", "transpose_b"),
    "Placeholder": _placeholder,
    "Select": _select,
    "SparseSoftmaxCrossEntropyWithLogits": _cross_entropy,
    "StatelessRandomGetKeyCounter": _key_and_counter,
    "VarHandleOp": _scalar,
}
"""Kind -> the shapes of its outputs."""
