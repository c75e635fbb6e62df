"""The op lists of TensorFlow's own pass, as its releases 2.19 and 2.21 have them, for float16 and bfloat16.

Membership is a matter of record here: these sets exist so that a plan can equal TensorFlow's, op for op. Nothing is
added and nothing left out; changes belong into `documented`. The two releases have the same lists and differ
in one stage: since 2.20 an infer op directly after a 16-bit op is 16-bit also in float16 (bfloat16 had that since 2.8).

TensorFlow opens some allow ops only above a CUDA or cuDNN version; every TensorFlow from 2.16 on is built against newer
ones, so they stand here without a gate.
"""

from functools import partial

from mixdown.rules.rule_set import Category, ListVariables, RuleSet, kinds
from mixdown.rules.tensorflow_traits import TRAITS

# The variables by which TensorFlow's pass lets users edit its lists; the older name last, as TensorFlow applies them.
VARIABLES = ListVariables(
    prefix="TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_",
    lists={
        Category.ALLOW: ("ALLOWLIST", "WHITELIST"),
        Category.INFER: ("INFERLIST", "GRAYLIST"),
        Category.DENY: ("DENYLIST", "BLACKLIST"),
        Category.CLEAR: ("CLEARLIST",),
    },
    force_all="unsafe_force_all",
)

# Allow: dominated by matrix products, fast in 16 bits and accumulated in float32 by the hardware.
FLOAT16_ALLOW = kinds("""
    BatchMatMul BatchMatMulV2 BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 Conv2D
    Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2
    Conv3DBackpropInput Conv3DBackpropInputV2 CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2
    CudnnRNNBackpropV3 CudnnRNNV2 CudnnRNNV3 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
    DepthwiseConv2dNativeBackpropInput Einsum FastUnsortedSegmentMax FusedConv2DBiasActivation
    FusedSparseConvGpuV2 GRUBlockCell GRUBlockCellGrad LSTMBlockCell LSTMBlockCellGrad MatMul Mha MhaV2
    Pmlp Tmlp TmlpV2 TmlpV3 VoxelMax
""")

# Allow, bfloat16: the same idea, restricted to what oneDNN runs in bfloat16.
BFLOAT16_ALLOW = kinds("""
    BatchMatMul BatchMatMulV2 Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D
    Conv3DBackpropFilterV2 Conv3DBackpropInputV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
    DepthwiseConv2dNativeBackpropInput Einsum FusedPadConv2D MatMul
""")

# Infer: element-wise or well-conditioned arithmetic, safe unless its input comes from a deny op.
FLOAT16_INFER = kinds("""
    Add AddN AddV2 AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BiasAdd BiasAddGrad BiasAddV1 Elu EluGrad
    Erf Erfc FloorDiv FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 Inv
    LeakyRelu LeakyReluGrad Log Log1p LogSoftmax Mul Prod RealDiv Reciprocal Selu SeluGrad Sigmoid
    SigmoidGrad Softmax Softplus SoftplusGrad Softsign SoftsignGrad Sqrt Sub Tanh TanhGrad
    _FusedBatchNormEx
""")

# Infer, bfloat16: with float32's exponent range squares and sums cannot overflow.
BFLOAT16_INFER = FLOAT16_INFER | kinds("Mean Rsqrt Square SquaredDifference Sum")

# Deny: long sums, powers and exponentials, whose results leave float16's range or lose its few digits; and saving.
FLOAT16_DENY = kinds("""
    Exp Expm1 L2Loss Mean Pow SaveV2 SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits Sum
""")

# Deny, bfloat16: without the sums, see above.
BFLOAT16_DENY = FLOAT16_DENY - kinds("Mean Sum")

# Clear, tensor lists: they store and hand out elements. The constructors are on no list: they follow their list.
TENSOR_LISTS = kinds("""
    TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListFromTensor TensorListGather
    TensorListGetItem TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListScatter
    TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
    TensorListStack
""")

# Clear: moves, selects or compares values and computes nothing that could round.
MOVES = kinds("""
    Abs ArgMax ArgMin BatchToSpace BatchToSpaceND BroadcastTo Ceil CheckNumerics ClipByValue Concat
    ConcatV2 DepthToSpace DynamicPartition DynamicStitch EnsureShape Enter Equal Exit ExpandDims Fill
    Floor Gather GatherNd GatherV2 Greater GreaterEqual Identity IdentityN IsFinite IsInf IsNan Less
    LessEqual Max MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad
    MaxPoolGradGradV2 MaxPoolGradV2 MaxPoolV2 Maximum Merge Min Minimum MirrorPad MirrorPadGrad Neg
    NextIteration NotEqual OneHot OnesLike Pack Pad PadV2 PreventGradient Rank Relu Relu6 Relu6Grad
    ReluGrad Reshape ResizeNearestNeighbor ResizeNearestNeighborGrad Reverse ReverseSequence ReverseV2
    Round Select SelectV2 Shape ShapeN Sign Size Slice Snapshot SpaceToBatch SpaceToBatchND SpaceToDepth
    Split SplitV Squeeze StopGradient StridedSlice StridedSliceGrad Switch Tile TopK TopKV2 Transpose
    Unpack Where ZerosLike
""")
FLOAT16_CLEAR = MOVES | TENSOR_LISTS

# Clear, bfloat16.
BFLOAT16_CLEAR = FLOAT16_CLEAR - kinds("MaxPool3DGradGrad OneHot Size") | kinds(
    "ResizeBilinear ScatterNd StatelessWhile While"
)

# In these releases a list whose handle leaves the graph is denied before anything else, and stops what comes later.
_rules = partial(
    RuleSet,
    frozen_lists_stop_taint=True,
    bounded_exponentials_are_safe=False,
    readers_that_meet_agree=False,
    taint_ends_at_results=False,
    keeps_exact=False,
    traits=TRAITS,
    variables=VARIABLES,
)

TF_2_19 = {
    "float16": _rules(FLOAT16_ALLOW, FLOAT16_DENY, FLOAT16_INFER, FLOAT16_CLEAR, infer_follows_low=False),
    "bfloat16": _rules(BFLOAT16_ALLOW, BFLOAT16_DENY, BFLOAT16_INFER, BFLOAT16_CLEAR, infer_follows_low=True),
}
TF_2_21 = {
    "float16": _rules(FLOAT16_ALLOW, FLOAT16_DENY, FLOAT16_INFER, FLOAT16_CLEAR, infer_follows_low=True),
    "bfloat16": TF_2_19["bfloat16"],
}
