"""The counts of steps and the log of skipped ones, kept in TensorFlow variables. Start with `StepCounters`.

A loss scale may be built in one graph and used in another. It has variables of its own in each, created at first use,
and checkpoints hold those of the current graph only.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from mixdown.scaling import CountProperties, SkipLimit, StepCounts, counted
from mixdown.scaling.step_counters import KEPT, LOG_SHAPE, MOST_NAMED, NEVER, NO_VARIABLE, offenders, row_of
from mixdown.tensorflow.loss_scaling.branching import either, in_xla, where
from mixdown.tensorflow.runtime.private import Trackable


# The class behind tf.Module and the v1 optimizers is a base: tf.Module itself shows a checkpoint all variables it can
# reach, those of other graphs too.
class StepCounters(CountProperties, Trackable):
    """What was tried and skipped, in weights that checkpoints hold: in eager execution Python values, else tensors.

    Subclasses may `declare` more weights in their constructor; then they call `create`.
    """

    def __init__(self) -> None:
        self._declared: dict[str, tuple[Any, tf.DType]] = {}
        self._weights: dict[tf.Graph | None, dict[str, tf.Variable]] = {}
        for name, value in StepCounts()._asdict().items():
            self.declare(name, value, tf.int64)
        self.declare("bad_steps", 0, tf.int64)  # of the state machine; the log holds it too
        self.declare("skip_log", np.full(LOG_SHAPE, NEVER), tf.int64)
        self.declare("skip_scales", np.zeros(KEPT), tf.float32)

    def declare(self, name: str, initial: Any, dtype: tf.DType) -> None:
        """Add a weight, which will exist in every graph the object is used in."""
        self._declared[name] = initial, dtype

    def weight(self, name: str) -> tf.Variable:
        """The variable of that name in the current graph."""
        return self.create()[name]

    @property
    def weights(self) -> list[tf.Variable]:
        """The variables of the current graph, created if this is the first use there."""
        return list(self.create().values())

    @property
    def homes(self) -> list[tf.Graph | None]:
        """The graphs that have a set of weights; None stands for eager execution."""
        return list(self._weights)

    def create(self) -> dict[str, tf.Variable]:
        """All weights of the current graph by name, made together so that a Saver sees all or none."""
        made = self._weights.setdefault(home(), {})
        for name, (initial, dtype) in self._declared.items():
            if name not in made:
                made[name] = _variable(name, initial, dtype)
                self._handle_deferred_dependencies(name=name, trackable=made[name])
        return made

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        made = self._weights.get(home(), {})
        return {**super()._trackable_children(save_type, **kwargs), **made}

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        made = self._weights.get(home(), {})
        return made[name] if name in made else super()._lookup_dependency(name, *args, **kwargs)

    def read_count(self, field: str) -> Any:
        """The value of a scalar weight: a Python number when it can be known now, else a tensor."""
        value = self.tensor(field)
        return value.numpy().item() if tf.executing_eagerly() else value

    @property
    def good_steps(self) -> Any:
        """Steps applied since the latest skip."""
        return self.read_count("steps") - self.read_count("last_skipped_step") - 1

    def tensor(self, name: str) -> tf.Tensor:
        """The value of the weight of that name."""
        return tf.convert_to_tensor(self.weight(name))

    def count_step(self, *, finite: tf.Tensor) -> tuple[tf.Operation | None, tf.Tensor]:
        """Count one more step; also returns the new number of skips in a row."""
        new = counted(StepCounts(*map(self.tensor, StepCounts._fields)), finite=finite, where=where)
        with tf.control_dependencies([finite]):  # a step that fails before it has gradients is not counted
            return self.write(new._asdict()), new.skips_in_a_row

    def write(self, values: dict[str, Any]) -> tf.Operation | None:
        """Assign values to the weights of those names; the operation that does it, or None if it is done."""
        return tf.group([self.weight(name).assign(value) for name, value in values.items()])

    def log_skip(self, numbers: Sequence[int], codes: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        """Log a skipped step that was counted, given each variable's number and the code of its gradient.

        Gives the offenders as the log holds them, once they are logged.
        """
        entries = log_entries(numbers, codes)
        head = tf.stack([self.tensor("last_skipped_step"), self.tensor("bad_steps")])
        at = tf.reshape(row_of(self.tensor("skipped_steps")), [1, 1])
        new = {"skip_log": tf.concat([head, entries], axis=0), "skip_scales": scale}
        rings = {name: tf.tensor_scatter_nd_update(self.tensor(name), at, [row]) for name, row in new.items()}
        with tf.control_dependencies([each for each in (self.write(rings),) if each is not None]):
            return tf.identity(entries)


def home() -> tf.Graph | None:
    """The graph in which variables are created now; None if they are created eagerly."""
    with tf.init_scope():
        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def _variable(name: str, initial: Any, dtype: tf.DType) -> tf.Variable:
    """A new variable outside any function being traced, mirrored if a strategy is active."""
    scope = tf.distribute.get_strategy().scope() if tf.distribute.has_strategy() else nullcontext()
    with tf.init_scope(), scope:
        return tf.Variable(
            initial_value=initial,
            dtype=dtype,
            trainable=False,
            name=name,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,  # all replicas write the same value
        )


def log_entries(numbers: Sequence[int], codes: tf.Tensor) -> tf.Tensor:
    """The first few variables with non-zero codes as a row of the log holds them, by their numbers."""
    entries = tf.where(codes > 0, 4 * tf.constant(list(numbers), tf.int32) + codes, tf.int32.max)
    padded = tf.concat([entries, tf.fill([MOST_NAMED], tf.int32.max)], axis=0)
    first = -tf.math.top_k(-padded, MOST_NAMED).values
    return tf.cast(tf.where(first < tf.int32.max, first, NO_VARIABLE), tf.int64)


def raise_or_warn(limit: SkipLimit, names: Iterable[str], skips: tf.Tensor, entries: tf.Tensor) -> tf.Tensor | None:
    """`SkipLimit.raise_or_warn`, now or in a graph; nothing in a function compiled by XLA, which cannot call Python.

    To `names`, those of the variables in the order of their numbers, more may be added later; they and the limit are
    kept as long as the process lives, as is all that a graph calls. Gives what to wait for, in a graph.
    """

    def call(skips: Any, entries: Any) -> None:
        limit.raise_or_warn(int(skips), offenders(entries, list(names)))

    if tf.executing_eagerly():
        call(skips.numpy(), entries.numpy())
    if tf.executing_eagerly() or in_xla():
        return None
    due = skips >= limit.threshold  # calling Python is slow
    return either(due, lambda: tf.numpy_function(call, [skips, entries], []), lambda: None)
