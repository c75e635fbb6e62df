"""What goes wrong in a twin is told of the user's function, op and source line, word for word as without mixdown."""

import traceback
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import ON_CPU, executed

import mixdown
from mixdown.errors import GraphError
from mixdown.tensorflow.reading.read import read
from mixdown.tensorflow.runtime.source_lines import name_originals
from mixdown.tensorflow.writing import planning

X = tf.ones((2, 2))
W = tf.ones((2, 2))


def unsuitable_reshape() -> Callable[[], Any]:
    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(None, tf.int32)])
    def inner(x: Any, shape: Any) -> Any:
        return tf.reshape(x, shape)

    @tf.function
    def user_function(x: Any, shape: Any) -> Any:
        return inner(tf.matmul(x, W), shape)

    return lambda: user_function(X, tf.constant([3, 5]))


def failed_assertion() -> Callable[[], Any]:
    @tf.function
    def user_function(x: Any) -> Any:
        y = tf.matmul(x, W)
        tf.debugging.assert_less(y, 1.0, message="too large")
        return y

    return lambda: user_function(X)


def infinite_number() -> Callable[[], Any]:
    @tf.function
    def user_function(x: Any) -> Any:
        return tf.debugging.check_numerics(tf.matmul(x, W) / 0.0, "not a number")

    return lambda: user_function(X)


def python_exception() -> Callable[[], Any]:
    def fails(x: Any) -> Any:
        raise ValueError(f"told by Python at {x.shape}")

    @tf.function
    def user_function(x: Any) -> Any:
        return tf.py_function(fails, [tf.matmul(x, W)], tf.float32)

    return lambda: user_function(X)


def deep_in_a_loop() -> Callable[[], Any]:
    @tf.function
    def user_function(x: Any) -> Any:
        for _ in tf.range(3):
            x = tf.matmul(x, W)
            tf.debugging.assert_less(x, 3.0, message="grown")
        return x

    return lambda: user_function(X)


def in_the_gradient() -> Callable[[], Any]:
    @tf.custom_gradient
    def own(x: Any) -> Any:
        return tf.matmul(x, W), lambda g: tf.debugging.check_numerics(tf.matmul(g, W) / 0.0, "bad gradient")

    function = tf.function(own)

    def user_function() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = function(X)
        return tape.gradient(y, X)

    return user_function


def exhausted_iterator() -> Callable[[], Any]:
    @tf.function
    def user_function(batches: Any) -> Any:
        return tf.matmul(next(batches), W)

    return lambda: user_function(iter(tf.data.Dataset.from_tensors(X).take(0)))


def not_compilable() -> Callable[[], Any]:
    @tf.function(jit_compile=True)
    def user_function(x: Any) -> Any:
        return tf.matmul(x, W), tf.strings.as_string(x)

    return lambda: user_function(X)


def not_compilable_inside() -> Callable[[], Any]:
    @tf.function(jit_compile=True)
    def inner(x: Any) -> Any:
        return tf.strings.to_number(tf.strings.as_string(tf.matmul(x, W)))

    @tf.function
    def user_function(x: Any) -> Any:
        return inner(tf.matmul(x, W))

    return lambda: user_function(X)


def not_compilable_in_a_loop() -> Callable[[], Any]:
    @tf.function(jit_compile=True)
    def user_function(x: Any) -> Any:
        for _ in tf.range(3):
            x = tf.strings.to_number(tf.strings.as_string(tf.matmul(x, W)))
        return x

    return lambda: user_function(X)


FAULTS = [
    unsuitable_reshape,
    failed_assertion,
    infinite_number,
    python_exception,
    deep_in_a_loop,
    in_the_gradient,
    exhausted_iterator,
    not_compilable,
    not_compilable_inside,
    not_compilable_in_a_loop,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_reads_as_it_does_without_mixdown(fault: Callable[[], Callable[[], Any]]) -> None:
    call = fault()
    plain, mixed = failure(call, nullcontext()), failure(call, mixdown.rewriting(ON_CPU))
    assert type(mixed) is type(plain)
    assert from_root(str(mixed)) == from_root(str(plain))
    assert from_root(mixed.message) == from_root(plain.message)
    assert (mixed.node_def, mixed.op, mixed.error_code) == (plain.node_def, plain.op, plain.error_code)
    assert "float16" not in "".join(traceback.format_exception(mixed))


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault is not exhausted_iterator])
def test_an_error_names_the_user_function_and_its_source_line(fault: Callable[[], Callable[[], Any]]) -> None:
    text = str(failure(fault(), mixdown.rewriting(ON_CPU)))
    assert "user_function" in text or "own" in text
    assert "test_twins_errors.py" in text
    assert "dummy_file_name" not in text


def from_root(text: str) -> str:
    """A text with paths as XLA writes them: it leaves out what all of them begin with."""
    return text.replace('File "/', 'File "')


def failure(call: Callable[[], Any], block: Any) -> Any:
    with block, pytest.raises(tf.errors.OpError) as caught:
        call()
    return caught.value


def test_a_function_that_works_again_after_an_error() -> None:
    @tf.function
    def user_function(x: Any) -> Any:
        y = tf.matmul(x, W)
        tf.debugging.assert_less(y, 100.0)
        return y

    with mixdown.rewriting(ON_CPU):
        with pytest.raises(tf.errors.InvalidArgumentError):
            user_function(100.0 * X)
        np.testing.assert_array_equal(user_function(X), 2.0 * X)


def test_a_function_that_cannot_be_read_runs_in_float32_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise GraphError("Node 'odd' has the unknown op 'Odd'.")

    @tf.function
    def unreadable(x: Any) -> Any:
        return tf.matmul(x, x)

    large = tf.constant([[300.0]])
    with mixdown.rewriting(ON_CPU):
        monkeypatch.setattr(planning, "read", fails)
        with pytest.warns(mixdown.MixdownWarning) as caught:
            assert unreadable(large).numpy().item() == 90_000.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert unreadable(large).numpy().item() == 90_000.0
    (warning,) = caught
    assert str(warning.message).startswith("Function __inference_unreadable_")
    assert str(warning.message).endswith("runs in float32: Node 'odd' has the unknown op 'Odd'.")


def test_other_functions_are_not_affected_by_one_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:

    def fails_on_exp(body: Any, *args: Any, **fields: Any) -> Any:
        if any(node.op == "Exp" for node in body.nodes):
            raise GraphError("Exp is odd today.")
        return read(body, *args, **fields)

    odd, even = tf.function(lambda x: tf.matmul(tf.exp(x), x)), tf.function(lambda x: tf.matmul(x, x))
    with mixdown.rewriting(ON_CPU):
        monkeypatch.setattr(planning, "read", fails_on_exp)
        with pytest.warns(mixdown.MixdownWarning, match="Exp is odd today"):
            odd(X)
        assert executed(lambda: even(X)).all_low("MatMul")


def test_an_error_names_neither_twins_nor_their_casts() -> None:
    error = SimpleNamespace(_message="[[x/cast_0_to_float16/_2]] in step__float16_0123456789abcdef")
    name_originals(error, None, {"step__float16_0123456789abcdef": "step"})
    assert error._message == "[[x/_2]] in step"
