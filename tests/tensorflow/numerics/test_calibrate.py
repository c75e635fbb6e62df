"""`calibrate`: ops whose numbers do not fit are kept, safe ones promoted if asked, and never against the user."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown.errors import MixdownError, PolicyError

ON_CPU = mixdown.Policy(devices="all")


@tf.function
def two_products(x: tf.Tensor) -> tf.Tensor:
    small = tf.matmul(x, x, name="small")
    return tf.matmul(small * 100.0, small, name="large")


BATCHES = [tf.eye(4), tf.eye(4) * 3.0, tf.eye(4) * 9.0]


def executed(policy: mixdown.Policy, function: Any, *args: Any) -> Any:
    with mixdown.rewriting(policy):
        return function(*args).numpy()


def test_an_op_whose_range_leaves_the_low_dtype_is_kept_and_the_result_is_finite() -> None:
    assert np.isinf(executed(ON_CPU, two_products, BATCHES[-1])).any()
    found = mixdown.numerics.calibration(two_products, BATCHES, policy=ON_CPU)
    assert [(each.op, each.verdict.value) for each in found.rulings] == [("large", "keep")]
    assert "reaches 6.56e+05, and float16 ends at 6.55e+04" in str(found)
    expected = two_products(BATCHES[-1]).numpy()
    np.testing.assert_allclose(executed(found.policy, two_products, BATCHES[-1]), expected, rtol=1e-2)


def test_the_range_over_all_batches_counts() -> None:
    assert mixdown.calibrate(two_products, BATCHES[:2], policy=ON_CPU) == ON_CPU


def test_a_bfloat16_range_is_wider() -> None:
    wide = mixdown.Policy(low="bfloat16", devices="all")
    assert mixdown.calibrate(two_products, BATCHES, policy=wide) == wide


def test_numbers_below_every_normal_one_are_kept_full() -> None:
    step = tf.function(lambda x: tf.matmul(x * 1e-7, tf.eye(4), name="tiny"))
    found = mixdown.numerics.calibration(step, [tf.ones([4, 4])], policy=ON_CPU.with_keep("Mul"))
    assert [each.op for each in found.rulings] == ["tiny"]
    assert "never exceeds 1e-07" in str(found)


def test_gradients_are_judged_under_the_loss_scale() -> None:
    w = tf.Variable(tf.eye(4))

    @tf.function
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, w, name="product")) * 1e-7
        return tape.gradient(loss, w)

    assert mixdown.calibrate(step, [tf.ones([4, 4])], policy=ON_CPU) == ON_CPU
    unscaled = mixdown.numerics.calibration(step, [tf.ones([4, 4])], policy=ON_CPU, loss_scale=1.0)
    assert "gradient_tape/product/MatMul" in [each.op for each in unscaled.rulings]


@tf.function
def softmax_between(x: tf.Tensor) -> tf.Tensor:
    weights = tf.nn.softmax(tf.matmul(x, x, name="before"), name="cautious")
    return tf.matmul(weights, x, name="after")


SAFE = [tf.constant([[0.5, 0.25], [0.75, 0.5]])]


def test_a_denied_op_that_is_safe_is_promoted_only_if_asked() -> None:
    assert mixdown.calibrate(softmax_between, SAFE, policy=ON_CPU) == ON_CPU
    promoted = mixdown.calibrate(softmax_between, SAFE, policy=ON_CPU, promote=True)
    assert [(o.kind, o.name, o.category.value) for o in promoted.overrides] == [("Softmax", "^cautious$", "infer")]
    report = mixdown.explain(softmax_between, *SAFE, policy=promoted)
    row = next(op for graph in report.graphs for op in graph.ops if op.name == "cautious")
    assert row.sites[0].dtype == "float16"


def test_a_denied_op_whose_numbers_vanish_is_not_promoted() -> None:
    cold = [tf.constant([[2.75, -2.75], [-2.75, 2.75]])]  # exp(-30) is a float32, but no float16
    assert mixdown.calibrate(softmax_between, cold, policy=ON_CPU, promote=True) == ON_CPU


@pytest.mark.parametrize(
    "rule",
    [
        ON_CPU.with_deny("Softmax"),
        ON_CPU.with_keep("Softmax"),
        ON_CPU.with_deny(name="cautious"),
        ON_CPU.with_keep(name="^caut"),
    ],
)
def test_an_op_the_user_denied_is_never_promoted(rule: mixdown.Policy) -> None:
    assert mixdown.calibrate(softmax_between, SAFE, policy=rule, promote=True) == rule


def test_a_loss_and_an_optimizer_are_not_promoted() -> None:
    w = tf.Variable(tf.eye(4))

    @tf.function
    def step(x: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.relu(tf.matmul(x, w)))
        gradient = tape.gradient(loss, w)
        w.assign_sub(gradient * tf.math.rsqrt(tf.reduce_mean(tf.square(gradient))) * tf.exp(-1.0))

    promoted = mixdown.calibrate(step, [tf.eye(4)], policy=ON_CPU, promote=True)
    assert promoted == ON_CPU


def test_the_reason_stands_in_the_strokes() -> None:
    policy = mixdown.calibrate(two_products, BATCHES, policy=ON_CPU)
    report = mixdown.explain(two_products, BATCHES[0], policy=policy)
    row = next(op for graph in report.graphs for op in graph.ops if op.name == "large")
    assert row.sites[0].dtype == "float32"
    assert "a rule of the policy (kind='MatMul', name='^large$') keeps it in float32" in row.sites[0].reason


def test_a_saved_policy_comes_back_and_does_the_same(tmp_path: Path) -> None:
    policy = mixdown.calibrate(two_products, BATCHES, policy=ON_CPU)
    path = policy.save(tmp_path / "policy.json")
    again = mixdown.Policy.load(path)
    assert again == policy
    assert np.isfinite(executed(again, two_products, BATCHES[-1])).all()


def test_a_value_that_enters_a_loop_counts_for_the_ops_inside() -> None:
    step = tf.function(
        lambda x: tf.while_loop(
            lambda i, _: i < 2, lambda i, h: (i + 1, tf.matmul(h, [[1e-4]], name="inside")), (0, tf.exp(x))
        )[1]
    )
    found = mixdown.numerics.calibration(step, [tf.constant([[12.0]])], policy=ON_CPU)
    assert [each.op for each in found.rulings] == ["while/inside"]


def test_batches_may_be_tuples_of_arguments() -> None:
    step = tf.function(lambda a, b: tf.matmul(a, b, name="product"))
    found = mixdown.numerics.calibration(step, [(tf.eye(2) * 300.0, tf.eye(2) * 300.0)], policy=ON_CPU)
    assert [each.op for each in found.rulings] == ["product"]


def test_messages(tmp_path: Path) -> None:
    with pytest.raises(MixdownError, match="Calibration needs at least one batch"):
        mixdown.calibrate(two_products, [], policy=ON_CPU)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(PolicyError, match=r"broken\.json holds no policy: it is not JSON"):
        mixdown.Policy.load(tmp_path / "broken.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(PolicyError, match="holds no policy: the policy should be an object"):
        mixdown.Policy.load(tmp_path / "list.json")
