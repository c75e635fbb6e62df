"""One step of a tf_keras loss-scale optimizer, new-style or legacy. Read `step` first.

A step is: one look at the gradients, one agreement between the replicas, one branch. In the branch taken nearly always
the inner optimizer runs; in the other one only the offenders are noted.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from mixdown.tensorflow.loss_scaling.branching import either
from mixdown.tensorflow.loss_scaling.finite import verdict
from mixdown.tensorflow.loss_scaling.loss_scale import first_of
from mixdown.tensorflow.loss_scaling.optimizers.skip import skipped
from mixdown.tensorflow.runtime.private import strategy_supports_no_merge_call

Apply = Callable[[list[Any]], Any]  # lets the inner optimizer apply gradients, in replica context


def step(optimizer: Any, gradients: list[Any], numbers: Sequence[int], apply: Apply) -> Any:
    """Apply the gradients if they are finite on every replica, else on none; enter the outcome in the books.

    Args:
        optimizer: the loss-scale optimizer.
        gradients: what would be applied, on this replica.
        numbers: those of the variables in the optimizer's books.
        apply: applies gradients to the variables.

    Returns:
        What to wait for, in a graph.
    """
    finite = verdict(clippable(optimizer, gradients))
    if strategy_supports_no_merge_call():
        return settle(optimizer, finite, gradients, numbers, lambda: apply(gradients))
    # Bound, not passed as arguments: merge_call would take them apart, replica by replica.
    across = partial(settle_across_replicas, optimizer=optimizer, numbers=numbers, apply=apply)
    return tf.distribute.get_replica_context().merge_call(across, args=(finite, gradients))


def settle_across_replicas(
    strategy: Any, finite: Any, gradients: list[Any], *, optimizer: Any, numbers: Sequence[int], apply: Apply
) -> Any:
    """`settle` in cross-replica context: most strategies refuse a merge_call (the inner optimizer's) in a branch."""

    def apply_on_each() -> Any:
        done = strategy.extended.call_for_each_replica(apply, args=(gradients,))
        return strategy.experimental_local_results(done)

    return settle(optimizer, first_of(finite), gradients, numbers, apply_on_each)


def settle(
    optimizer: Any, finite: tf.Tensor, gradients: list[Any], numbers: Sequence[int], apply: Callable[[], Any]
) -> Any:
    """Move the scale, enter the step, then apply or skip."""
    moved, advice = optimizer._loss_scale.decide(gradients, finite)
    good = finite if advice is True else tf.logical_and(finite, advice)
    entered, skips = optimizer._loss_scale.enter(finite=good)
    with tf.control_dependencies([each for each in (moved, entered) if each is not None]):
        return either(good, lambda: effects(apply()), lambda: skipped(optimizer, gradients, numbers, skips))


def clippable(optimizer: Any, gradients: list[Any]) -> list[Any]:
    """What must be finite for the inner optimizer to apply finite numbers.

    `tf.clip_by_global_norm` makes NaN of every gradient if their norm is Inf, which large finite gradients can reach.
    """
    present = [each for each in gradients if each is not None]
    return [*present, tf.linalg.global_norm(present)] if optimizer.global_clipnorm else present


def effects(done: Any) -> list[Any]:
    """What a graph can wait for, of what the inner optimizer returned."""
    if tf.executing_eagerly():
        return []
    return [each for each in tf.nest.flatten(done) if isinstance(each, tf.Operation) or tf.is_tensor(each)]
