"""The ledger and the log of skipped steps of a loss scale, kept in TensorFlow variables. Start with `Books`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mixdown.scaling import NEVER, Ledger, blank, entered
from mixdown.scaling.alarm import MOST_NAMED
from mixdown.scaling.skip_log import HEAD, KEPT, LOG_SHAPE, NOBODY, place
from mixdown.tensorflow.loss_scaling.branching import where
from mixdown.tensorflow.loss_scaling.weights import Weighted


class Books(Weighted):
    """What was tried and skipped. In eager execution the properties are Python values, in graphs tensors."""

    def __init__(self) -> None:
        super().__init__()
        for name, value in blank()._asdict().items():
            self.declare(name, value, tf.int64)
        self.declare("bad_steps", 0, tf.int64)  # the machine's; the log tells it too
        self.declare("skip_log", np.full(LOG_SHAPE, NEVER), tf.int64)
        self.declare("skip_scales", np.zeros(KEPT), tf.float32)

    @property
    def steps(self) -> Any:
        """Steps tried so far, skipped ones included."""
        return self.read("steps")

    @property
    def skipped_steps(self) -> Any:
        """Steps skipped so far because a gradient was not finite."""
        return self.read("skipped_steps")

    @property
    def last_skipped_step(self) -> Any:
        """Number of the latest skipped step, counted from 0; None (in graphs -1) if there was none."""
        step = self.read("last_skipped_step")
        return None if isinstance(step, int) and step == NEVER else step

    @property
    def skips_in_a_row(self) -> Any:
        """Steps skipped since the latest one that was applied."""
        return self.read("skips_in_a_row")

    @property
    def good_steps(self) -> Any:
        """Steps applied since the latest skip."""
        return self.read("steps") - self.read("last_skipped_step") - 1

    def read(self, name: str) -> Any:
        """The value of a scalar weight: a Python number when it can be known now, else a tensor."""
        value = tf.convert_to_tensor(self.weight(name))
        return value.numpy().item() if tf.executing_eagerly() else value

    def enter(self, *, finite: tf.Tensor) -> tuple[tf.Operation | None, tf.Tensor]:
        """Write one more step into the books; also returns the new number of skips in a row."""
        old = Ledger(*(tf.convert_to_tensor(self.weight(name)) for name in Ledger._fields))
        new = entered(old, finite=finite, where=where)
        with tf.control_dependencies([finite]):  # a step that fails before it has gradients is none
            return self.write(new._asdict()), new.skips_in_a_row

    def write(self, values: dict[str, Any]) -> tf.Operation | None:
        """Assign values to the weights of those names; the operation that does it, or None if it is done."""
        return tf.group([self.weight(name).assign(value) for name, value in values.items()])

    def accuse(self, numbers: Sequence[int], codes: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        """Log a skipped step that has been entered, given each variable's number and the code of its gradient.

        Returns:
            The offenders as the log has them, once it does.
        """
        entries = encoded(numbers, codes)
        head = [tf.convert_to_tensor(self.weight(name)) for name in ("last_skipped_step", "bad_steps")]
        at = tf.reshape(place(tf.convert_to_tensor(self.weight("skipped_steps"))), [1, 1])
        news = {"skip_log": tf.concat([tf.stack(head), entries], axis=0), "skip_scales": scale}
        rings = {name: tf.convert_to_tensor(self.weight(name)) for name in news}
        turned = {name: tf.tensor_scatter_nd_update(rings[name], at, [new]) for name, new in news.items()}
        with tf.control_dependencies([each for each in (self.write(turned),) if each is not None]):
            return tf.identity(entries)

    def latest_entries(self) -> tf.Tensor:
        """The offenders of the latest skip as the log has them."""
        at = place(tf.convert_to_tensor(self.weight("skipped_steps")))
        return tf.convert_to_tensor(self.weight("skip_log"))[at, HEAD:]


def encoded(numbers: Sequence[int], codes: tf.Tensor) -> tf.Tensor:
    """The first few variables with non-zero codes as a row of the log has them, by their numbers."""
    entries = tf.where(codes > 0, 4 * tf.constant(list(numbers), tf.int32) + codes, tf.int32.max)
    padded = tf.concat([entries, tf.fill([MOST_NAMED], tf.int32.max)], axis=0)
    first = -tf.math.top_k(-padded, MOST_NAMED).values
    return tf.cast(tf.where(first < tf.int32.max, first, NOBODY), tf.int64)
