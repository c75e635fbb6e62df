"""What `locate` says beside the name: ranges, iteration, source line, layer, float32, and what it does not blame."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

# Private: the functions that TensorFlow has registered. Checked on 2.16 to 2.21.
from tensorflow.python.eager import context as eager_context
from tensorflow.python.eager.context import Context

import mixdown
from mixdown.errors import MixdownError
from mixdown.tensorflow.numerics.probing import runs

ON_CPU = mixdown.Policy(devices="all")
locate = mixdown.numerics.locate


def test_the_ranges_of_inputs_and_outputs_are_those_of_the_values() -> None:
    a, b = tf.constant([[-200.0, 4.0]]), tf.constant([[300.0, 1.0], [2.0, -400.0]])
    step = tf.function(lambda: tf.matmul(a * 100.0, b, name="planted"))
    location = locate(step, policy=ON_CPU.with_keep("Mul"))
    assert location is not None
    left, right = location.inputs
    assert (left.lowest, left.highest, left.shape, left.dtype) == (-20000.0, 400.0, (1, 2), "float16")
    assert (right.lowest, right.highest) == (-400.0, 300.0)
    (made,) = location.outputs
    assert (made.infs, made.nans, made.shape) == (2, 0, (1, 2))


def test_a_finite_step_has_no_location() -> None:
    assert locate(tf.function(lambda: tf.matmul(tf.eye(2), tf.eye(2))), policy=ON_CPU) is None


def test_an_overflow_that_float32_has_too_is_told_apart() -> None:
    step = tf.function(lambda x: tf.matmul(x, x, name="planted"))
    location = locate(step, tf.fill([2, 2], 1e30), policy=mixdown.Policy(low="bfloat16", devices="all"))
    assert location is not None
    assert (location.op, location.dtype, location.float32) == ("planted", "bfloat16", True)


def test_an_op_that_runs_in_float32_is_found_too() -> None:
    step = tf.function(lambda x: tf.math.log(x - 1.0, name="planted"))
    location = locate(step, tf.ones([2]), policy=ON_CPU)
    assert location is not None
    assert (location.op, location.dtype, location.float32) == ("planted", "float32", True)


def test_the_iteration_of_a_loop_is_the_one_that_overflowed() -> None:
    step = tf.function(
        lambda x: tf.while_loop(
            lambda i, _: i < 6, lambda i, h: (i + 1, tf.matmul(h, [[10.0]], name="planted")), (0, x)
        )[1]
    )
    location = locate(step, tf.constant([[7.0]]), policy=ON_CPU)  # 70, 700, 7000, 70000
    assert location is not None
    assert (location.op, location.iteration) == ("while/planted", 3)


def test_the_earlier_iteration_comes_before_the_earlier_op() -> None:
    """In iteration 1 the second op overflows, in iteration 3 the first: the second op was first."""

    def body(i: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return i + 1, tf.matmul(a, [[10.0]], name="slow"), tf.matmul(b, [[300.0]], name="fast")

    start = (0, tf.constant([[7.0]]), tf.constant([[1.0]]))
    step = tf.function(lambda: tf.while_loop(lambda i, *_: i < 6, body, start))
    location = locate(step, policy=ON_CPU)
    assert location is not None
    assert (location.op, location.iteration, location.others) == ("while/fast", 1, ("while/slow",))


def test_the_source_line_is_the_users() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(x, x, name="planted")

    location = locate(step, tf.fill([2, 2], 300.0), policy=ON_CPU)
    assert location is not None
    path, _, rest = location.source.partition(":")
    line = int(rest.partition(" ")[0])
    assert 'name="planted"' in Path(path).read_text("utf-8").splitlines()[line - 1]


def test_the_layer_is_the_scope_of_the_op_in_both_passes() -> None:
    layer = keras.layers.Dense(3, kernel_initializer=keras.initializers.Constant(300.0), name="culprit")
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(3, name="before"), layer])
    model.compile(keras.optimizers.SGD(0.0), loss=lambda _, y: 1e3 * keras.ops.sum(y))
    small = locate(lambda: model.train_on_batch(tf.fill([2, 3], 1e-3), tf.zeros([2, 3])), policy=ON_CPU)
    large = locate(lambda: model.train_on_batch(tf.fill([2, 3], 6e3), tf.zeros([2, 3])), policy=ON_CPU)
    assert small is not None
    assert large is not None
    assert (small.backward, large.backward) == (True, False)
    assert small.layer.split("/")[-1].startswith("culprit")
    assert large.layer.split("/")[-1].startswith("culprit")


def test_an_infinite_mask_that_goes_away_again_is_not_blamed() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        logits = tf.matmul(x, x) + tf.math.log(tf.constant([[1.0, 0.0], [1.0, 1.0]]), name="mask")
        return tf.matmul(tf.nn.softmax(logits), x * 1e3, name="planted")

    location = locate(step, tf.fill([2, 2], 10.0), policy=ON_CPU)
    assert location is None or location.op == "mask"  # nothing else is bad
    location = locate(step, tf.fill([2, 2], 100.0), policy=ON_CPU)
    assert location is not None
    assert location.op == "planted"
    assert "mask" in location.others


def test_what_comes_in_bad_is_not_blamed_on_an_op() -> None:
    step = tf.function(lambda x: tf.matmul(x, x))
    location = locate(step, tf.constant([[np.nan]]), policy=ON_CPU)
    assert location is not None
    assert (location.came_in, location.op, location.kind) == (True, "x", "argument")
    weight = tf.Variable([[np.inf]])
    location = locate(tf.function(lambda: tf.matmul(weight, weight)), policy=ON_CPU)
    assert location is not None
    assert (location.came_in, location.kind) == (True, "ReadVariableOp")


def test_a_check_for_numerics_does_not_stop_the_search() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.debugging.check_numerics(tf.matmul(x, x, name="planted"), "bad")

    location = locate(step, tf.fill([2, 2], 300.0), policy=ON_CPU)
    assert location is not None
    assert location.op == "planted"


def test_an_assertion_does_not_stop_the_search() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        inner = tf.function(lambda: tf.matmul(x, x, name="planted"))()
        with tf.control_dependencies([tf.debugging.assert_less(inner, 1e9)]):
            return tf.identity(inner)

    location = locate(step, tf.fill([2, 2], 300.0), policy=ON_CPU)
    assert location is not None
    assert location.op == "planted"


def test_a_step_that_fails_for_another_reason_fails_with_the_users_names() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.matmul(x, x), [tf.shape(x)[0] + 5], name="culprit")

    with pytest.raises(tf.errors.InvalidArgumentError, match="culprit") as raised:
        locate(step, tf.ones([2, 2]), policy=ON_CPU)
    assert "probed" not in str(raised.value)


def test_pruned_ops_are_not_brought_to_life() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        tf.nn.relu(tf.matmul(x, x, name="never_runs"))
        return tf.matmul(x, [[1.0], [1.0]])

    assert locate(step, tf.fill([2, 2], 300.0), policy=ON_CPU) is None


def test_several_functions_of_one_step_are_searched_in_order() -> None:
    first = tf.function(lambda x: tf.matmul(x, x, name="first"))
    second = tf.function(lambda x: tf.matmul(x, x, name="second"))

    def step() -> Any:
        second(tf.ones([2, 2]))
        return first(tf.fill([2, 2], 300.0)), second(tf.fill([2, 2], 300.0))

    location = locate(step, policy=ON_CPU)
    assert location is not None
    assert (location.op, location.others) == ("first", ("second",))


def test_the_policy_in_force_is_used_and_put_back() -> None:
    step = tf.function(lambda x: tf.matmul(x, x, name="planted"))
    x = tf.fill([2, 2], 300.0)
    with mixdown.rewriting(ON_CPU):
        location = locate(step, x)
        assert np.isinf(step(x).numpy()).all()
    assert location is not None
    assert location.op == "planted"


def test_nothing_stays_behind() -> None:
    step = tf.function(lambda x: tf.matmul(x, x, name="planted"))
    with mixdown.rewriting(ON_CPU):
        step(tf.ones([2, 2]))
    hook, functions = Context.call_function, set(eager_context.context().list_function_names())
    for _ in range(2):
        locate(step, tf.fill([2, 2], 300.0), policy=ON_CPU)
    assert Context.call_function is hook
    assert set(eager_context.context().list_function_names()) == functions


def test_a_closed_gate_is_told_and_float32_searched() -> None:
    step = tf.function(lambda x: tf.math.log(x, name="planted"))
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("the gate is open here")
    with pytest.warns(mixdown.MixdownWarning, match="there is no GPU"):
        location = locate(step, tf.zeros([1]), policy=mixdown.Policy())
    assert location is not None
    assert (location.op, location.dtype) == ("planted", "float32")


def test_a_step_without_functions_is_refused() -> None:
    def eager_step() -> tf.Tensor:
        return tf.matmul(tf.eye(2), tf.eye(2))

    with pytest.raises(MixdownError, match=r"eager_step called no tf\.function .* put its work into a tf\.function"):
        locate(eager_step, policy=ON_CPU)


def test_a_function_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise mixdown.GraphError("it is broken")

    monkeypatch.setattr(runs, "copy_tree", broken)
    with (
        pytest.warns(mixdown.MixdownWarning, match="Function __inference_.* runs without probes: it is broken"),
        pytest.raises(MixdownError, match=r"called no tf\.function that could be probed"),
    ):
        locate(tf.function(lambda x: x + 1.0), tf.ones([2]), policy=ON_CPU)


def test_the_control_flow_of_tensorflow_1_is_left_out_and_told() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        left, right = tf.raw_ops.Switch(data=x, pred=tf.reduce_sum(x) > 0)
        return tf.raw_ops.Merge(inputs=[tf.matmul(left, left), tf.matmul(right, right)])[0]

    with pytest.warns(mixdown.MixdownWarning, match="are not probed: it has the control flow of TensorFlow 1"):
        assert locate(step, tf.ones([2, 2]), policy=ON_CPU) is None


def test_it_reads_well() -> None:
    step = tf.function(lambda x: tf.matmul(tf.exp(x), x, name="planted"))
    text = str(locate(step, tf.fill([2, 2], 12.0), policy=ON_CPU))
    assert "planted (MatMul) in the forward pass reads Exp, which does not fit float16." in text
    assert "reads Exp float32[2, 2] from 162755 to 162755" in text
    assert "policy.with_keep('MatMul', name='^planted$')" in text
