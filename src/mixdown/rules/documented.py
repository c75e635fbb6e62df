"""The lists that are used by default: to move an op kind to another list, or to add one, edit this file.

They keep what the documentation of `enable_mixed_precision_graph_rewrite` promises. They start from TensorFlow 2.21's
float16 lists and serve both 16-bit dtypes: bfloat16 does not overflow where float16 does, but it has fewer digits, so
sums and normalizations stay float32 there too.
"""

from mixdown.rules.rule_set import RuleSet, kinds
from mixdown.rules.tensorflow_releases import FLOAT16_ALLOW, FLOAT16_CLEAR, FLOAT16_DENY, FLOAT16_INFER, VARIABLES
from mixdown.rules.tensorflow_traits import TRAITS

# Promised to be denied ("numerically unsafe ... e.g. Softmax"), and denied by TensorFlow 1.14 to 2.0: an exponential or
# a logarithm of float16's coarse values. Later releases moved them to infer without a word in the documentation.
EXPONENTIALS = kinds("Log Log1p LogSoftmax Softmax")

# Matrix products that TensorFlow's lists miss.
MISSED_PRODUCTS = kinds("""
    BatchMatMulV3
    Conv
""")
# BatchMatMulV3: BatchMatMulV2 with a type of its own for each operand.
# Conv: Conv2D and Conv3D under one name.

# Arithmetic that TensorFlow's lists miss although its twin is on them.
MISSED_ARITHMETIC = kinds("""
    Div
    DivNoNan
    MulNoNan
""")
# Div: RealDiv's name in old graphs.
# DivNoNan, MulNoNan: RealDiv and Mul with a guard against 0, written by many losses and metrics.

# Data movement that TensorFlow's lists miss.
MISSED_MOVES = kinds("""
    ConjugateTranspose
    MatrixBandPart
    Roll
""")
# ConjugateTranspose: Transpose, for real numbers. MatrixBandPart: keeps or zeroes, as causal masks do. Roll: rotates.

_RULES = RuleSet(
    allow=FLOAT16_ALLOW | MISSED_PRODUCTS,
    deny=FLOAT16_DENY | EXPONENTIALS,
    infer=(FLOAT16_INFER - EXPONENTIALS) | MISSED_ARITHMETIC,
    clear=FLOAT16_CLEAR | MISSED_MOVES,
    frozen_lists_stop_taint=False,  # a list in between does not make a denied op's result any safer
    bounded_exponentials_are_safe=True,
    keeps_exact=True,
    infer_follows_low=False,  # it made a plan depend on the order of nodes, and put the weight update into 16 bits
    readers_that_meet_agree=False,
    taint_ends_at_results=True,
    traits=TRAITS,
    variables=VARIABLES,
)
DOCUMENTED = {"float16": _RULES, "bfloat16": _RULES}
