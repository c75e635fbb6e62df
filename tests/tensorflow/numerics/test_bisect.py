"""`bisect`: the planted ops, and no more than one beside them, within the bound of runs, as a policy to paste."""

from math import ceil, log2
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown.errors import MixdownError

ON_CPU = mixdown.Policy(devices="all")


def chain(length: int, sensitive: set[int]) -> Any:
    """A chain of products; in a sensitive one large numbers cancel, which 16 bits cannot do."""
    shift = tf.constant(np.diag([1.0] * 4).astype(np.float32))

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        for place in range(length):
            if place in sensitive:
                pair = tf.concat([x + 1000.0, tf.fill([4, 4], -1000.0)], 1)
                x = tf.matmul(pair, tf.concat([shift, shift], 0), name=f"product_{place}")
            else:
                x = tf.matmul(x, shift, name=f"product_{place}")
        return x

    return step


X = tf.constant(np.random.default_rng(1).uniform(0.5, 1.0, (4, 4)).astype(np.float32))
PLAIN = ON_CPU.with_keep("AddV2", "ConcatV2", "Fill")  # only products are low


@pytest.mark.parametrize(
    ("length", "planted"), [(1, {0}), (2, {0, 1}), (8, {3}), (16, {0, 15}), (16, {5, 6, 7}), (33, {2, 20}), (10, set())]
)
def test_planted_ops_are_found_within_the_bound_of_runs(length: int, planted: set[int]) -> None:
    step = chain(length, planted)
    repair = mixdown.bisect(step, [X], 5e-3, policy=PLAIN)
    wanted = {("MatMul", f"product_{place}") for place in planted}
    assert wanted <= set(repair.kept)
    assert len(set(repair.kept) - wanted) <= 1
    assert repair.runs <= 2 * len(planted) * ceil(log2(length)) + 2
    assert repair.error <= 5e-3


def test_the_printed_policy_can_be_pasted_and_repairs(capsys: pytest.CaptureFixture[str]) -> None:
    step = chain(6, {2, 4})
    expected = step(X).numpy()
    repair = mixdown.bisect(step, [X], 5e-3, policy=PLAIN)
    printed = capsys.readouterr().out
    pasted = eval(printed, {"mixdown": mixdown})  # noqa: S307 - what a user pastes is run as it is
    assert pasted == repair.policy
    with mixdown.rewriting(PLAIN):
        assert np.abs(step(X).numpy() / expected - 1).max() > 5e-3
    with mixdown.rewriting(pasted):
        assert np.abs(step(X).numpy() / expected - 1).max() < 5e-3


def test_gradients_count_even_if_nothing_is_returned() -> None:
    w, v = tf.Variable(tf.eye(4)), tf.Variable(tf.eye(4))

    @tf.function
    def train(x: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(tf.matmul(x, w, name="fine"), v, name="steep")) * 1e5
        for variable, gradient in zip((w, v), tape.gradient(loss, (w, v)), strict=True):
            variable.assign_sub(1e-9 * gradient)

    before = w.numpy()
    repair = mixdown.bisect(train, [X], 1e-2, policy=ON_CPU)
    assert repair.kept
    assert all("gradient_tape" in name for _, name in repair.kept)
    np.testing.assert_array_equal(w.numpy(), before)


def test_every_batch_counts() -> None:
    step = tf.function(lambda x: tf.matmul(x, x, name="product"))
    good, bad = tf.eye(2), tf.eye(2) * 300.0
    assert mixdown.bisect(step, [good], 1e-2, policy=ON_CPU).kept == ()
    assert mixdown.bisect(step, [good, bad], 1e-2, policy=ON_CPU).kept == (("MatMul", "product"),)


@pytest.mark.parametrize(
    ("batches", "tolerance", "message"),
    [([], 0.1, "bisect needs at least one batch"), ([X], 0.0, "bisect needs a tolerance above 0, got 0.0")],
)
def test_messages(batches: list[Any], tolerance: float, message: str) -> None:
    with pytest.raises(MixdownError, match=message):
        mixdown.bisect(chain(1, set()), batches, tolerance, policy=ON_CPU)
