"""What JAX's primitives do to memory and to state, which decides their prices: `TRAITS`.

A few kinds are no primitives but stand for what has none: `vdot` (a `dot_general` of vectors, which is a sum),
`argument` and `result` of a program, `constant`, `carry` (a value that a loop takes from round to round), and `branch`
(a value that the branches of a condition yield).
"""

import re

from mixdown.rules.rule_set import kinds
from mixdown.rules.traits import Traits

_NEVER = re.compile(r"(?!)")

# The value itself, in another shape or under another name.
_VIEWS = kinds("""
    copy copy_p expand_dims mesh_cast name optimization_barrier pvary reshape reshard sharding_constraint squeeze
    stop_gradient
""")

_STEEP = kinds("exp exp2 expm1 log log1p pow")

# What XLA counts for an A100: erfc is fifty operations, and a logarithm or tanh one that takes hundreds of cycles.
_ARITHMETIC = {
    **dict.fromkeys(kinds("cbrt cosh erf exp exp2 expm1 logistic sinh"), 1.2),
    **dict.fromkeys(kinds("cos digamma erf_inv lgamma sin tan"), 5.0),
    **dict.fromkeys(kinds("log log1p"), 26.0),
    "erfc": 15.0,
    "pow": 0.9,
    "tanh": 30.0,
}

TRAITS = Traits(
    looks_at_shapes=frozenset(),
    moves_nothing=_VIEWS,
    views=_VIEWS,
    repeats=kinds("broadcast_in_dim"),
    arithmetic=_ARITHMETIC,
    widened=kinds("erf erfc"),
    elementwise=frozenset(_ARITHMETIC)
    | kinds("""
        abs add add_any atan2 broadcast_in_dim ceil clamp concatenate convert_element_type div dynamic_slice
        dynamic_update_slice eq floor ge gt integer_pow iota is_finite le lt max min mul ne neg nextafter pad reciprocal
        reduce_precision rem rev round rsqrt select_n sign slice split sqrt square sub tile transpose
    """),
    moves=kinds("broadcast_in_dim concatenate dynamic_slice dynamic_update_slice pad rev slice split tile transpose"),
    spreads=kinds("broadcast_in_dim tile"),
    masked=kinds("select_n"),
    reductions=kinds("argmax argmin reduce_max reduce_min reduce_prod reduce_sum vdot"),
    normalizations=frozenset(),
    tame=kinds("log log1p"),
    epilogues=kinds("add"),
    selections=kinds("max min reduce_max reduce_min reduce_window_max reduce_window_min"),
    sums=kinds("add add_any"),
    widens=frozenset(),
    totals=kinds("reduce_sum"),
    accumulated=kinds("reduce_sum"),
    passes=_VIEWS | kinds("broadcast_in_dim concatenate max min neg pad rev select_n slice transpose"),
    steep=_STEEP,
    products=kinds("dot_general ragged_dot_general"),
    scales=kinds("div mul reciprocal"),
    multiplies=kinds("mul"),
    whole=kinds("add add_any mul sub"),
    saturating=kinds("erf erfc logistic tanh"),
    limited=kinds("erf erfc logistic tanh"),
    divides=kinds("div"),  # a constant that is divided is read as `reciprocal`
    absorbs=kinds("add add_any sub"),
    digit_readers=kinds("ceil cos eq floor ne nextafter rem round sin tan"),
    finite_checks=kinds("is_finite"),
    lookups=kinds("dynamic_slice gather"),
    reads=kinds("argument"),
    arguments=kinds("argument constant"),
    bounded=("exp", "neg", "square"),  # exp(-x^2), the derivative of erf
    writes=_NEVER,  # the reader says of every site whether it writes, and whether it is a derivative
    derivatives=_NEVER,
)
