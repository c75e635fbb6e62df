"""Laws that hold for random graphs over the listed ops, tensor lists and v1 loops included."""

import pytest
import tensorflow as tf
from benchmarks.oracle import theirs
from benchmarks.rewrite_difference import differences
from hypothesis import given, settings

# Kernels are registered under names only TensorFlow's own module can list (checked on 2.16 to 2.21).
from tensorflow.python.framework import kernels
from tests.parity.laws import same_after_two_rewrites, same_interface, unchanged_input
from tests.parity.policies import LOWS, RULES, everywhere, like_tensorflow
from tests.parity.recipes import LIST_SHARES, Recipe, cook, recipes, repeatable
from tests.parity.vocabulary import ALLOW, INFER

from mixdown import rewrite_graph_def


def assert_parity(recipe: Recipe, low: str) -> None:
    dish = cook(recipe)
    ours = rewrite_graph_def(dish.graph_def, dish.fetches, policy=like_tensorflow(low)).graph_def
    assert differences(dish.graph_def, ours, theirs(dish.graph_def, dish.fetches, low)) == []


@settings(repeatable, max_examples=300)
@given(recipe=recipes())
def test_types_and_casts_equal_tensorflows_in_float16(recipe: Recipe) -> None:
    assert_parity(recipe, "float16")


@settings(repeatable, max_examples=150)
@given(recipe=recipes())
def test_types_and_casts_equal_tensorflows_in_bfloat16(recipe: Recipe) -> None:
    assert_parity(recipe, "bfloat16")


@pytest.mark.slow
@pytest.mark.parametrize("low", LOWS)
@settings(repeatable, max_examples=3000)
@given(recipe=recipes(longest=50) | recipes(shares=LIST_SHARES))
def test_types_and_casts_equal_tensorflows_in_many_larger_graphs(low: str, recipe: Recipe) -> None:
    assert_parity(recipe, low)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("low", LOWS)
@settings(repeatable, max_examples=60)
@given(recipe=recipes())
def test_a_rewrite_is_valid_final_and_leaves_its_input_alone(low: str, rules: str, recipe: Recipe) -> None:
    dish, policy = cook(recipe), everywhere(low, rules)
    with unchanged_input(dish.graph_def):
        rewritten = rewrite_graph_def(dish.graph_def, dish.fetches, policy=policy).graph_def
    assert same_interface(dish.graph_def, rewritten, dish.fetches)
    assert same_after_two_rewrites(rewritten, dish.fetches, (), policy)


@pytest.mark.parametrize("low", LOWS)
def test_random_graphs_use_no_kind_that_tensorflow_would_leave_without_a_kernel(low: str) -> None:
    dtype = tf.as_dtype(low).as_datatype_enum
    upgraded = {"FusedBatchNorm": "FusedBatchNormV2", "FusedBatchNormGrad": "FusedBatchNormGradV2"}
    for kind in {upgraded.get(phrase.kind, phrase.kind) for phrase in (*ALLOW, *INFER)}:
        on_cpu = [
            kernel for kernel in kernels.get_registered_kernels_for_op(kind).kernel if kernel.device_type == "CPU"
        ]
        allowed = {
            member for kernel in on_cpu for limit in kernel.constraint for member in limit.allowed_values.list.type
        }
        assert dtype in allowed, kind
