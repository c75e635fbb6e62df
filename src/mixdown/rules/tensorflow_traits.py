"""What kinds of op do to memory and to variables: facts that a cost model needs and no list tells."""

from __future__ import annotations

import re

from mixdown.rules.rule_set import kinds

LOOKS_AT_SHAPES = kinds("Rank Shape ShapeN Size")
"""Kinds that read no value at all."""

MOVES_NOTHING = LOOKS_AT_SHAPES | kinds("""
    EnsureShape Enter Exit ExpandDims Identity IdentityN Merge NextIteration PreventGradient Reshape Snapshot Squeeze
    StopGradient Switch
""")
"""Kinds that hand on their input's buffer, or look at its shape only."""

VIEWS = kinds("EnsureShape ExpandDims Identity IdentityN PreventGradient Reshape Snapshot Squeeze StopGradient")
"""Of those, the ones that yield the value they are given, in another shape at most."""

COSTLY = kinds("Cos Elu Erf Erfc Exp Expm1 Log Log1p Pow Selu Sigmoid Sin Softplus Tanh")
"""Element-wise kinds that a compiler does not work out twice."""

ELEMENTWISE = COSTLY | kinds("""
    Abs Add AddN AddV2 BiasAdd BiasAddV1 BroadcastTo Cast Ceil ClipByValue ConcatV2 Div DivNoNan EluGrad Equal Fill
    Floor FloorDiv Greater GreaterEqual Inv LeakyRelu LeakyReluGrad Less LessEqual Maximum Minimum Mul MulNoNan Neg
    NotEqual OneHot Pack Pad PadV2 RealDiv Reciprocal Relu Relu6 Relu6Grad ReluGrad Reverse Round Rsqrt RsqrtGrad Select
    SelectV2 SeluGrad SigmoidGrad Sign Slice SoftplusGrad Softsign SoftsignGrad Split SplitV Sqrt SqrtGrad Square
    SquaredDifference StridedSlice Sub TanhGrad Tile Transpose Unpack
""")
"""Kinds that a compiler fuses with their neighbours, on both sides."""

REDUCTIONS = kinds("""
    All Any BiasAddGrad L2Loss LogSoftmax Max Mean Min Prod Softmax SoftmaxCrossEntropyWithLogits
    SparseSoftmaxCrossEntropyWithLogits Sum
""")
"""Kinds that a compiler fuses with what comes before them."""

EPILOGUES = kinds("BiasAdd BiasAddV1")
"""Kinds that the library call before them takes in."""

SELECTIONS = kinds("Max MaxPool MaxPool3D MaxPoolV2 Min")
"""Kinds that yield one of the values they are given; their derivatives look for that very value again."""

SUMS = kinds("Add AddN AddV2")

NORMALIZATIONS = kinds("""
    FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3
    _FusedBatchNormEx
""")

POOLINGS = kinds("AvgPool AvgPoolGrad MaxPool MaxPoolGrad MaxPoolGradV2 MaxPoolV2")

LOOKUPS = kinds("Gather GatherNd GatherV2")
"""Kinds that take a few rows of their first input."""

READS = kinds("ReadVariableOp VariableV2 Variable")
"""Kinds whose output is the value of a variable."""

_WRITES = re.compile(
    r"Assign(Add|Sub)?(Variable(Op|XlaConcatND))?|(Resource)?(Sparse)?Apply.+|ResourceScatter.+|ResourceStridedSliceAssign"
    r"|Scatter(Add|Sub|Mul|Div|Min|Max|Update)|ScatterNd(Add|Sub|Update|Min|Max)|StridedSliceAssign"
)
_GRADIENTS = re.compile(r".+Grad(V\d)?")


def writes_variable(kind: str) -> bool:
    """Whether ops of this kind change a variable."""
    return _WRITES.fullmatch(kind) is not None


def is_gradient(kind: str) -> bool:
    """Whether ops of this kind are the derivative of another kind, such as BiasAddGrad."""
    return _GRADIENTS.fullmatch(kind) is not None
