"""The shapes that ops of the commonest kinds make, as TensorFlow's own shape functions infer them: `FUNCTIONS`.

TensorFlow has to import a graph before it infers anything, which takes longer than all of this. `View` is what is known
of one node meanwhile; what is not known well enough raises an `AskError`.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from mixdown.core.graph import Shape
from mixdown.rules.rule_set import kinds
from mixdown.tensorflow.protos.bodies import attribute
from mixdown.tensorflow.protos.wiring import Source

Dims = tuple[int | None, ...]
"""A shape whose rank is known, or integers that shapes are made of; None where one is not known."""


class AskError(Exception):
    """TensorFlow has to be asked: something is not known well enough, or does not fit."""


def need(condition: object) -> None:
    """Leave it to TensorFlow unless a condition holds."""
    if not condition:
        raise AskError


def whole(dims: Dims) -> list[int]:
    """The integers, all of which must be known."""
    need(None not in dims)
    return [each for each in dims if each is not None]


class View(NamedTuple):
    """A node, and what is known of its inputs; a position counts inputs."""

    node: Any
    sources: Sequence[Source]
    shape_of: Callable[[Source], Shape]
    value_of: Callable[[Source], Dims | None]
    port: int = 0  # the output whose integers are asked for

    def shape(self, position: int) -> Dims:
        """The shape of an input, whose rank must be known."""
        return _known(self.shape_of(self.sources[position]))

    def shapes(self, end: int | None = None) -> list[Dims]:
        """The shapes of all inputs, of which there must be one, or of those before one."""
        need(self.sources[:end])
        return [_known(self.shape_of(source)) for source in self.sources[:end]]

    def rank(self, position: int) -> int:
        """The number of dimensions of an input, 0 if it is not known."""
        return len(self.shape_of(self.sources[position]) or ())

    def value(self, position: int) -> Dims:
        """The integers in an input, some of which may not be known."""
        return _known(self.value_of(self.sources[position]))

    def whole(self, position: int) -> list[int]:
        """The integers in an input."""
        return whole(self.value(position))

    def sizes(self, position: int) -> Dims:
        """The integers in an input that is a shape."""
        value = self.value(position)
        need(all(size is None or size >= 0 for size in value))
        return value

    def attribute(self, name: str) -> Any:
        """An attribute, empty if the node has none."""
        return attribute(self.node, name)


def _known(found: Dims | None) -> Dims:
    if found is None:
        raise AskError
    return found


Shapes = tuple[Shape, ...]
Function = Callable[[View], Shapes]


def merged(one: Dims, other: Dims) -> Dims:
    """The shape that two shapes of the same value come to."""
    need(len(one) == len(other))
    need(all(None in (a, b) or a == b for a, b in zip(one, other, strict=True)))
    return tuple(b if a is None else a for a, b in zip(one, other, strict=True))


def broadcast(one: Dims, other: Dims) -> Dims:
    """The shape that two shapes are broadcast to."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    start = len(longer) - len(shorter)
    return (*longer[:start], *map(_broadcast_size, longer[start:], shorter))


def _broadcast_size(one: int | None, other: int | None) -> int | None:
    if other in (one, 1):
        return one
    need(one in (1, None) or other is None)
    return other if one in (1, None) else one


def first_shape(view: View) -> Shapes:
    """The output has the shape of the first input."""
    return (view.shape_of(view.sources[0]),)


def folded(combine: Callable[[Dims, Dims], Dims]) -> Function:
    """The output has the shape that two shapes at a time are combined to."""
    return lambda view: (reduce(combine, view.shapes()),)


def by_value(position: int) -> Function:
    """The shape is the value of an input."""
    return lambda view: (view.sizes(position),)


def _comparison(view: View) -> Shapes:
    strict = "incompatible_shape_error"
    need(strict not in view.node.attr or view.node.attr[strict].b)
    return folded(broadcast)(view)


def _placeholder(view: View) -> Shapes:
    need("shape" in view.node.attr)
    return _noted(view.attribute("shape").shape)


def _noted(shape: Any) -> Shapes:
    sizes = [dim.size for dim in shape.dim]
    need(not shape.unknown_rank and min(sizes, default=0) >= -1)
    return (tuple(None if size < 0 else size for size in sizes),)


def _product(flip_left: str, flip_right: str) -> Function:
    def function(view: View) -> Shapes:
        left, right = view.shapes()
        need(min(len(left), len(right)) >= 2)  # noqa: PLR2004 - of a matrix
        need(view.node.op != "MatMul" or len(left) == len(right) == 2)  # noqa: PLR2004 - the same
        rows, inner = left[:-3:-1] if view.attribute(flip_left).b else left[-2:]
        other, columns = right[:-3:-1] if view.attribute(flip_right).b else right[-2:]
        merged((inner,), (other,))
        return ((*broadcast(left[:-2], right[:-2]), rows, columns),)

    return function


def _reduction(view: View) -> Shapes:
    shape, axes = view.shape(0), view.whole(1)
    need(all(-len(shape) <= axis < len(shape) for axis in axes))
    gone = {axis % len(shape) for axis in axes}
    if view.attribute("keep_dims").b:
        return (tuple(1 if axis in gone else size for axis, size in enumerate(shape)),)
    return (tuple(size for axis, size in enumerate(shape) if axis not in gone),)


def _cross_entropy(view: View) -> Shapes:
    logits, labels = view.shapes()
    need((len(logits), len(labels)) == (2, 1))
    rows = merged(logits[:1], labels)
    return (rows, (*rows, logits[1]))


def _select(view: View) -> Shapes:
    choice, *shapes = view.shapes()
    return (reduce(merged, [choice, *shapes] if choice else shapes),)


_UNCHANGED = kinds("""
    Abs Cast Ceil Cos Cumsum Elu Erf Erfc Exp Expm1 Floor Identity Inv InvertPermutation LeakyRelu Log Log1p LogSoftmax
    Neg OnesLike PreventGradient Reciprocal Relu Relu6 Round Rsqrt RsqrtGrad Selu Sigmoid SigmoidGrad Sign Sin Snapshot
    Softmax Softplus Softsign Sqrt SqrtGrad Square StopGradient Tanh TanhGrad ZerosLike
""")
_MERGED = kinds("AddN EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad SoftsignGrad")
_BROADCAST = kinds("""
    Add AddV2 Div DivNoNan FloorDiv FloorMod Greater GreaterEqual Less LessEqual Maximum Minimum Mul MulNoNan Pow
    RealDiv SelectV2 SquaredDifference Sub
""")
_BY_VALUE = kinds("Fill StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2")

FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(_UNCHANGED, first_shape),
    **dict.fromkeys(_MERGED, folded(merged)),
    **dict.fromkeys(_BROADCAST, folded(broadcast)),
    **dict.fromkeys(_BY_VALUE, by_value(0)),
    **dict.fromkeys(("Equal", "NotEqual"), _comparison),
    **dict.fromkeys(("Mean", "Sum", "Max", "Min", "Prod", "All", "Any"), _reduction),
    **dict.fromkeys(("BatchMatMulV2", "BatchMatMulV3"), _product("adj_x", "adj_y")),
    **dict.fromkeys(("Shape", "ShapeN"), lambda view: tuple((len(shape),) for shape in view.shapes())),
    "BroadcastGradientArgs": lambda _: ((None,), (None,)),
    "Const": lambda view: _noted(view.attribute("value").tensor.tensor_shape),
    "IdentityN": lambda view: tuple(map(view.shape_of, view.sources)),
    "MatMul": _product("transpose_a", "transpose_b"),
    "Placeholder": _placeholder,
    "Select": _select,
    "SparseSoftmaxCrossEntropyWithLogits": _cross_entropy,
    "StatelessRandomGetKeyCounter": lambda _: ((1,), (2,)),
    "VarHandleOp": lambda _: ((),),
}
"""Kind -> the shapes of its outputs."""
