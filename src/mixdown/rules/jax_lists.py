"""The lists for JAX: to move a primitive to another list, or to add one, edit this file.

JAX has no lists of its own to follow. These follow the ones for TensorFlow where a primitive does what an op does;
composites such as softmax are not primitives, so their parts are listed, and the planner's laws do the rest. What is on
no list stays float32: linear algebra, Fourier transforms, kernels of the user's own, whatever is new.
"""

from functools import partial

from mixdown.rules.jax_traits import TRAITS
from mixdown.rules.rule_set import Category, ListVariables, RuleSet, kinds

# JAX has no such variables of its own; the names of the lists are those of TensorFlow's.
VARIABLES = ListVariables(
    prefix="MIXDOWN_JAX_",
    lists={
        Category.ALLOW: ("ALLOWLIST",),
        Category.INFER: ("INFERLIST",),
        Category.DENY: ("DENYLIST",),
        Category.CLEAR: ("CLEARLIST",),
    },
    force_all="unsafe_force_all",
)

# Matrix products, fast in 16 bits and accumulated in float32 by the hardware.
PRODUCTS = kinds("conv_general_dilated dot_general ragged_dot_general")

# Long sums, powers and exponentials, whose results leave float16's range or lose digits.
DENY = kinds("""
    cumlogsumexp cumprod cumsum exp exp2 expm1 log log1p pow psum psum2 psum_invariant reduce_scatter reduce_sum
    scatter-add scatter-mul scatter-sub vdot
""")

# Element-wise or well-conditioned arithmetic, safe unless its input comes from a deny op.
INFER = kinds("""
    add add_any div erf erfc logistic mul reciprocal reduce_window_sum sqrt sub tanh
""")

# The same, where powers cannot overflow: the second as `square`, the third and fourth as `integer_pow`.
POWERS = kinds("integer_pow rsqrt square")

# Moves, selects or compares values and computes nothing that could round.
CLEAR = kinds("""
    abs all_gather all_gather_invariant all_to_all argmax argmin broadcast_in_dim ceil clamp concatenate copy copy_p
    cummax cummin dynamic_slice dynamic_update_slice eq eq_to expand_dims floor gather ge gt is_finite le le_to lt lt_to
    max mesh_cast min name ne neg optimization_barrier pad pbroadcast pmax pmin ppermute pvary reduce_max reduce_min
    reduce_window_max reduce_window_min reshape reshard rev round scatter scatter-max scatter-min
    select_and_gather_add select_and_scatter_add select_n sharding_constraint sign slice sort split squeeze
    stop_gradient tile top_k transpose
""")

_rules = partial(
    RuleSet,
    PRODUCTS,
    clear=CLEAR,
    frozen_lists_stop_taint=False,
    bounded_exponentials_are_safe=True,
    infer_follows_low=False,
    readers_that_meet_agree=True,
    taint_ends_at_results=False,
    keeps_exact=True,
    traits=TRAITS,
    variables=VARIABLES,
    host="JAX",
    scopes_are_numbered=False,
    # What a product yields may be float32 although its operands have 16 bits, and costs no cast then.
    sites={kind: {"result": Category.CLEAR} for kind in ("dot_general", "ragged_dot_general")},
)
JAX = {
    "float16": _rules(deny=DENY | kinds("integer_pow"), infer=INFER),
    "bfloat16": _rules(deny=DENY, infer=INFER | POWERS),
}
