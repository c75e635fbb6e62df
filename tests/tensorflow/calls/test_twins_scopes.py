"""Policies in force for a part of a program: blocks, nested blocks, decorators, and what lies outside of them."""

import warnings
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import BFLOAT16, ON_CPU, bits, executed

import mixdown
from mixdown.tensorflow import install
from mixdown.tensorflow.calls import active_policy, call_hook

LARGE = tf.constant([[300.0]])
FLOAT32, FLOAT16, ROUNDED = (
    float(tf.matmul(large, large)[0, 0]) for large in (LARGE, tf.cast(LARGE, "float16"), tf.cast(LARGE, "bfloat16"))
)
assert len({FLOAT32, FLOAT16, ROUNDED}) == 3  # 300 * 300 tells the dtypes apart


def squared(function: Any) -> float:
    return float(function(LARGE).numpy().item())


@pytest.fixture
def square() -> Any:
    return tf.function(lambda x: tf.matmul(x, x))


def test_the_innermost_block_decides(square: Any) -> None:
    seen = [squared(square)]
    with mixdown.rewriting(ON_CPU):
        seen.append(squared(square))
        with mixdown.rewriting(BFLOAT16):
            seen.append(squared(square))
            with mixdown.rewriting(ON_CPU):
                seen.append(squared(square))
            seen.append(squared(square))
        seen.append(squared(square))
    seen.append(squared(square))
    assert seen == [FLOAT32, FLOAT16, ROUNDED, FLOAT16, ROUNDED, FLOAT16, FLOAT32]


def test_a_block_that_is_left_by_an_exception_is_left(square: Any) -> None:
    def fails() -> None:
        with mixdown.rewriting(ON_CPU):
            assert squared(square) == FLOAT16
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert squared(square) == FLOAT32


def test_a_block_overrides_the_policy_of_the_process(square: Any) -> None:
    install.install()
    active_policy.set_process_policy(BFLOAT16)
    try:
        assert squared(square) == ROUNDED
        with mixdown.rewriting(ON_CPU):
            assert squared(square) == FLOAT16
        assert squared(square) == ROUNDED
    finally:
        active_policy.set_process_policy(None)
    assert squared(square) == FLOAT32


def test_a_decorated_function_is_mixed_and_another_is_not(square: Any) -> None:
    mixed = mixdown.rewrite(ON_CPU)(square)
    assert squared(mixed) == FLOAT16
    assert squared(square) == FLOAT32


def test_a_decorated_python_function_mixes_the_functions_it_calls(square: Any) -> None:
    @mixdown.rewrite(BFLOAT16)
    def program(x: Any) -> Any:
        return square(x)

    assert squared(program) == ROUNDED
    assert program.__name__ == "program"


def test_a_policy_with_overrides_has_its_own_twins(square: Any) -> None:
    kept = ON_CPU.with_keep("MatMul")
    with mixdown.rewriting(kept):
        assert squared(square) == FLOAT32
    with mixdown.rewriting(ON_CPU):
        assert squared(square) == FLOAT16
    with mixdown.rewriting(kept):
        assert squared(square) == FLOAT32


def test_equal_policies_share_their_twins() -> None:
    assert active_policy.twins_for(mixdown.Policy(devices="all")) is active_policy.twins_for(
        mixdown.Policy(devices="all")
    )


def test_a_function_in_which_nothing_can_be_low_runs_as_it_is() -> None:
    function = tf.function(tf.exp)
    with mixdown.rewriting(ON_CPU), warnings.catch_warnings():
        warnings.simplefilter("error")
        ran = executed(lambda: function(LARGE / 300.0))
    assert not ran.has_low
    assert len(ran.functions) == 1
    assert "float16" not in ran.functions[0]


def test_eager_ops_are_never_touched() -> None:
    with mixdown.rewriting(ON_CPU):
        assert squared(lambda x: tf.matmul(x, x)) == FLOAT32


def test_functions_run_eagerly_are_never_touched(square: Any) -> None:
    tf.config.run_functions_eagerly(True)  # noqa: FBT003 - TensorFlow's signature
    try:
        with mixdown.rewriting(ON_CPU):
            assert squared(square) == FLOAT32
    finally:
        tf.config.run_functions_eagerly(False)  # noqa: FBT003 - as above


def test_uninstalling_gives_tensorflow_its_methods_back(square: Any) -> None:
    install.install()
    call_hook.uninstall()
    try:
        with active_policy.scope(ON_CPU):
            assert squared(square) == FLOAT32
    finally:
        call_hook.install()
    with active_policy.scope(ON_CPU):
        assert squared(square) == FLOAT16


def test_a_tensorflow_that_calls_functions_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    call_hook.uninstall()
    monkeypatch.setattr(call_hook, "works", lambda: False)
    with pytest.raises(mixdown.MixdownError, match="does not call functions where mixdown expects it"):
        install.install()
    assert not call_hook.installed()
    monkeypatch.undo()
    install.install()
    assert call_hook.installed()


def test_whether_the_boundary_works_is_found_by_trying() -> None:
    install.install()
    assert call_hook.works()
    call_hook.uninstall()
    try:
        assert not call_hook.works()
    finally:
        call_hook.install()


@pytest.mark.parametrize("seed", range(3))
def test_after_a_block_training_is_bit_identical_to_training_that_never_saw_one(seed: int) -> None:
    def train(*, detour: bool) -> list[bytes]:
        weight = tf.Variable(tf.random.stateless_normal((4, 4), (seed, 1)))

        @tf.function
        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.matmul(tf.nn.relu(tf.matmul(x, weight)), weight) ** 2)
            weight.assign_sub(0.01 * tape.gradient(loss, weight))

        x = tf.random.stateless_normal((8, 4), (seed, 2))
        if detour:
            start = weight.numpy()
            with mixdown.rewriting(ON_CPU):
                step(x)
            assert not np.array_equal(weight, start)
            weight.assign(start)
        for _ in range(5):
            step(x)
        return bits(weight)

    assert train(detour=True) == train(detour=False)
