"""What random graphs are made of: the forms of tensors and the phrases (ops) that map forms to forms.

Every form has one shape, so any phrase fits any tensors of its forms and every graph is valid:
matrix [16, 16], image [4, 4, 4, 4] (as many elements), bias [16], channel [4], slab [8, 16], pair [2, 16, 16].
`variable` is the handle of a resource variable, `reference` a v1 variable, both of a matrix.
Kinds that TensorFlow's pass may paint although they have no 16-bit CPU kernel (AvgPool3D and its gradient) are
left out: its own output would not run. `test_random_graphs` checks that no other such kind is used.
"""

from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

SHAPES: dict[str, tuple[int, ...]] = {
    "matrix": (16, 16),
    "image": (4, 4, 4, 4),
    "bias": (16,),
    "channel": (4,),
    "slab": (8, 16),
    "pair": (2, 16, 16),
    "flags": (16, 16),
    "whole": (16, 16),
    "half": (16, 16),
    "double": (16, 16),
    "sizes": (2,),
    "list": (),
    "variable": (),
    "reference": (),
}
DTYPES: dict[str, tf.DType] = {
    "flags": tf.bool,
    "whole": tf.int32,
    "half": tf.float16,
    "double": tf.float64,
    "sizes": tf.int32,
    "list": tf.variant,
    "variable": tf.resource,
}
# Integer arguments that are always constants: written `@name` in a phrase.
CONSTANTS: dict[str, Any] = {
    "@0": 0,
    "@1": 1,
    "@none": [],
    "@matrix": [16, 16],
    "@image": [4, 4, 4, 4],
    "@pair": [2, 16, 16],
    "@swap": [1, 0],
    "@rows": list(range(16)),
    "@corner": [0, 0],
    "@ones": [1, 1],
    "@edges": [[0, 0], [0, 0]],
}
WINDOW = {"strides": [1, 1, 1, 1], "padding": "SAME"}
POOL = {"ksize": [1, 2, 2, 1], **WINDOW}


@dataclass(frozen=True)
class Phrase:
    """One op and the forms of its inputs and outputs; `_` marks an output nobody reads."""

    kind: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


def phrase(line: str, **attributes: Any) -> Phrase:
    """Read `Kind input input > output output`."""
    left, right = line.split(">")
    kind, *takes = left.split()
    return Phrase(kind, tuple(takes), tuple(right.split()), attributes)


def elementwise(kinds: str, inputs: int = 1) -> list[Phrase]:
    """Spell out kinds that map matrices to a matrix and images to an image."""
    return [
        phrase(f"{kind} {' '.join([form] * inputs)} > {form}") for kind in kinds.split() for form in ("matrix", "image")
    ]


ALLOW = [
    phrase("MatMul matrix matrix > matrix"),
    phrase("MatMul matrix matrix > matrix", transpose_b=True),
    phrase("MatMul double double > double"),
    phrase("BatchMatMulV2 matrix matrix > matrix"),
    phrase("BatchMatMul matrix matrix > matrix"),
    phrase("Einsum matrix matrix > matrix", equation="ij,jk->ik"),
    phrase("Conv2D image image > image", **WINDOW),
    phrase("Conv2DBackpropInput @image image image > image", **WINDOW),
    phrase("Conv2DBackpropFilter image @image image > image", **WINDOW),
]
INFER = [
    *elementwise("Tanh Sigmoid Elu Softplus Sqrt Erf Log1p LeakyRelu Selu Softsign Reciprocal"),
    *elementwise("Add AddV2 Sub Mul RealDiv TanhGrad SigmoidGrad EluGrad FloorDiv", inputs=2),
    *elementwise("AddN", inputs=3),
    phrase("Softmax matrix > matrix"),
    phrase("LogSoftmax matrix > matrix"),
    phrase("Mul half half > half"),
    phrase("AddV2 whole whole > whole"),
    phrase("BiasAdd matrix bias > matrix"),
    phrase("BiasAdd image channel > image"),
    phrase("BiasAddGrad matrix > bias"),
    phrase("BiasAddGrad image > channel"),
    phrase("AvgPool image > image", **POOL),
    phrase("AvgPoolGrad @image image > image", **POOL),
    phrase("Prod matrix @none > matrix"),
    phrase("FusedBatchNorm image channel channel channel channel > image channel channel _ _"),
    phrase("FusedBatchNormV2 image channel channel channel channel > image channel channel _ _"),
    phrase("FusedBatchNormV3 image channel channel channel channel > image channel channel _ _ _"),
    phrase("FusedBatchNormGrad image image channel channel channel > image channel channel _ _"),
    phrase("FusedBatchNormGradV3 image image channel channel channel channel > image channel channel _ _"),
]
DENY = [
    *elementwise("Exp Expm1"),
    *elementwise("Pow", inputs=2),
    phrase("Sum matrix @none > matrix"),
    phrase("Mean image @none > image"),
    phrase("SoftmaxCrossEntropyWithLogits matrix matrix > bias matrix"),
]
CLEAR = [
    *elementwise("Relu Abs Neg Identity ZerosLike OnesLike StopGradient Relu6 Floor"),
    *elementwise("Maximum Minimum ReluGrad", inputs=2),
    phrase("Identity bias > bias"),
    phrase("Identity channel > channel"),
    phrase("Identity list > list"),
    phrase("Identity whole > whole"),
    phrase("Relu half > half"),
    phrase("Reshape matrix @image > image"),
    phrase("Reshape image @matrix > matrix"),
    phrase("Reshape image sizes > matrix"),
    phrase("Transpose matrix @swap > matrix"),
    phrase("ConcatV2 slab slab @0 > matrix"),
    phrase("Split @0 matrix > slab slab", num_split=2),
    phrase("Pack matrix matrix > pair"),
    phrase("Unpack pair > matrix matrix", num=2),
    phrase("IdentityN matrix image > matrix image"),
    phrase("IdentityN matrix whole half matrix > matrix whole half matrix"),
    phrase("Shape matrix > sizes"),
    phrase("Shape image > _"),
    phrase("ShapeN matrix matrix matrix > sizes sizes _"),
    phrase("Size matrix > _"),
    phrase("Greater matrix matrix > flags"),
    phrase("Equal matrix matrix > flags"),
    phrase("Select flags matrix matrix > matrix"),
    phrase("SelectV2 flags matrix matrix > matrix"),
    phrase("MaxPool image > image", **POOL),
    phrase("MaxPoolGrad image image image > image", **POOL),
    phrase("GatherV2 matrix @rows @0 > matrix"),
    phrase("ExpandDims matrix @0 > _"),
    phrase("BroadcastTo bias @matrix > matrix"),
    phrase("Pad matrix @edges > matrix"),
    phrase("Slice matrix @corner @matrix > matrix"),
    phrase("StridedSlice matrix @corner @matrix @ones > matrix"),
    phrase("Tile matrix @ones > matrix"),
    phrase("Max matrix @none > matrix"),
    phrase("ArgMax matrix @0 > _"),
    phrase("DynamicStitch @rows matrix > matrix", N=1),
]
UNLISTED = [
    *elementwise("Lgamma Sin Atan"),
    phrase("Rsqrt matrix > matrix"),
    phrase("Square image > image"),
    phrase("SquaredDifference matrix matrix > matrix"),
    phrase("LogicalNot flags > flags"),
    phrase("Cumsum matrix @0 > matrix"),
]
CASTS = [
    phrase(f"Cast {source} > {target}", DstT=DTYPES.get(target, tf.float32))
    for source, target in [
        *(("whole", "matrix"), ("flags", "matrix"), ("half", "matrix"), ("double", "matrix")),
        *(("matrix", "whole"), ("matrix", "half"), ("matrix", "double"), ("matrix", "flags")),
    ]
]
LISTS = [
    phrase("TensorListReserve @matrix @1 > list", element_dtype=tf.float32),
    phrase("EmptyTensorList @matrix @1 > list", element_dtype=tf.float32),
    phrase("TensorListFromTensor pair @matrix > list"),
    phrase("TensorListPushBack list matrix > list"),
    phrase("TensorListPushBack list matrix > list"),
    phrase("TensorListSetItem list @0 matrix > list"),
    phrase("TensorListSetItem list @0 matrix > list"),
    phrase("TensorListGetItem list @0 @matrix > matrix", element_dtype=tf.float32),
    phrase("TensorListGetItem list @0 @matrix > matrix", element_dtype=tf.float32),
    phrase("TensorListPopBack list @matrix > list matrix", element_dtype=tf.float32),
    phrase("TensorListStack list @matrix > pair", element_dtype=tf.float32, num_elements=2),
    phrase("TensorListResize list @1 > list"),
    phrase("TensorListLength list > _"),
]
VARIABLES = [
    phrase("ReadVariableOp variable > matrix", dtype=tf.float32),
    phrase("AssignSubVariableOp variable matrix >"),
    phrase("Identity reference > matrix"),
    phrase("MatMul reference matrix > matrix"),
    phrase("AssignSub reference matrix > _"),
]
GROUPS: dict[str, list[Phrase]] = {
    "allow": ALLOW,
    "infer": INFER,
    "deny": DENY,
    "clear": CLEAR,
    "unlisted": UNLISTED,
    "casts": CASTS,
    "lists": LISTS,
    "variables": VARIABLES,
}
