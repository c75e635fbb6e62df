"""What TensorFlow's op kinds do to memory and to variables, which decides their prices: `TRAITS`."""

import re

from mixdown.rules.rule_set import kinds
from mixdown.rules.traits import Traits

_LOOKS_AT_SHAPES = kinds("Rank Shape ShapeN Size")

# What XLA counts for an A100: Erfc is fifty operations, and a logarithm or Tanh one that takes hundreds of cycles.
_ARITHMETIC = {
    **dict.fromkeys(kinds("Elu Erf Exp Expm1 Selu Sigmoid"), 1.2),
    **dict.fromkeys(kinds("Pow SigmoidGrad TanhGrad"), 0.9),
    **dict.fromkeys(kinds("Cos Sin"), 5.0),
    **dict.fromkeys(kinds("Log Log1p Softplus"), 26.0),
    "Erfc": 15.0,
    "ReluGrad": 0.6,
    "Tanh": 30.0,
}

_VIEWS = kinds("EnsureShape ExpandDims Identity IdentityN PreventGradient Reshape Snapshot Squeeze StopGradient")

TRAITS = Traits(
    looks_at_shapes=_LOOKS_AT_SHAPES,
    moves_nothing=_LOOKS_AT_SHAPES
    | kinds("""
        EnsureShape Enter Exit ExpandDims Identity IdentityN Merge NextIteration PreventGradient Reshape Snapshot
        Squeeze StopGradient Switch
    """),
    views=_VIEWS,
    repeats=frozenset(),  # derivatives of a maximum reshape it only
    arithmetic=_ARITHMETIC,
    widened=kinds("Erf Erfc"),
    elementwise=frozenset(_ARITHMETIC)
    | kinds("""
        Abs Add AddN AddV2 BiasAdd BiasAddV1 BroadcastTo Cast Ceil ClipByValue ConcatV2 Div DivNoNan EluGrad Equal Fill
        Floor FloorDiv Greater GreaterEqual Inv LeakyRelu LeakyReluGrad Less LessEqual Maximum Minimum Mul MulNoNan Neg
        NotEqual OneHot Pack Pad PadV2 RealDiv Reciprocal Relu Relu6 Relu6Grad ReluGrad Reverse Round Rsqrt RsqrtGrad
        Select SelectV2 SeluGrad SigmoidGrad Sign Slice SoftplusGrad Softsign SoftsignGrad Split SplitV Sqrt SqrtGrad
        Square SquaredDifference StridedSlice Sub TanhGrad Tile Transpose Unpack
    """),
    moves=kinds("""
        BroadcastTo ConcatV2 Pack Pad PadV2 Reverse Slice Split SplitV StridedSlice Tile Transpose Unpack
    """),
    spreads=kinds("BroadcastTo Tile"),
    masked=kinds("Select SelectV2"),
    reductions=kinds("""
        All Any BiasAddGrad L2Loss LogSoftmax Max Mean Min Prod Softmax SoftmaxCrossEntropyWithLogits
        SparseSoftmaxCrossEntropyWithLogits Sum
    """),
    normalizations=kinds("LogSoftmax Softmax"),
    tame=kinds("""
        Log Log1p LogSoftmax Mean Softmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits
    """),
    epilogues=kinds("BiasAdd BiasAddV1"),
    selections=kinds("Max MaxPool MaxPool3D MaxPoolV2 Min"),
    sums=kinds("Add AddN AddV2"),
    widens=kinds("Add AddN AddV2"),
    totals=kinds("BiasAddGrad Sum"),
    accumulated=frozenset(),  # gradients of biases are a kind of their own here, and on the infer list
    passes=_VIEWS,
    steep=frozenset(),  # softmax and cross-entropy are ops of their own here
    products=kinds("BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum MatMul"),
    scales=kinds("Div DivNoNan Inv Mul MulNoNan RealDiv Reciprocal"),
    multiplies=kinds("Mul MulNoNan"),
    whole=kinds("Add AddN AddV2 FloorDiv Mul Prod Sub"),
    saturating=frozenset(),  # TensorFlow's lists know of none
    limited=kinds("Erf Erfc Sigmoid Tanh"),
    divides=frozenset(),  # a constant may as well be divided: `tensorflow/reading/builder.py` tells
    absorbs=kinds("Add AddN AddV2 Sub"),
    digit_readers=kinds("""
        Bucketize Ceil Cos Equal Floor FloorDiv FloorMod LowerBound Mod NotEqual Rint Round Sin Tan TruncateDiv
        TruncateMod Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 UpperBound
    """),
    finite_checks=kinds("IsFinite IsInf IsNan"),
    lookups=kinds("Gather GatherNd GatherV2"),
    reads=kinds("ReadVariableOp VariableV2 Variable"),
    arguments=kinds("_Arg"),
    bounded=("Exp", "Neg", "Square"),  # Exp(-x^2), the derivative of Erf
    writes=re.compile(
        r"Assign(Add|Sub)?(Variable(Op|XlaConcatND))?|(Resource)?(Sparse)?Apply.+|ResourceScatter.+"
        r"|ResourceStridedSliceAssign|StridedSliceAssign"
        r"|Scatter(Add|Sub|Mul|Div|Min|Max|Update)|ScatterNd(Add|Sub|Update|Min|Max)"
    ),
    derivatives=re.compile(r".+Grad(V\d)?"),
)
