"""The ledger and the offending variables of a loss scale, kept in TensorFlow variables. Start with `Books`.

Offending variables are one int64 vector: 4 * (number of the variable) + (code of its gradient), first offenders
first, `NOBODY` in unused places. Integers survive XLA and checkpoints where strings do not; whoever holds the
variables knows their names.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from mixdown.scaling import NEVER, Ledger, blank, entered
from mixdown.scaling.alarm import MOST_NAMED, VERDICTS, Offenders
from mixdown.tensorflow.lift import where
from mixdown.tensorflow.weights import Weighted

NOBODY = -1


class Books(Weighted):
    """What was tried and skipped. In eager execution the properties are Python values, in graphs tensors."""

    def __init__(self) -> None:
        super().__init__()
        for name, value in blank()._asdict().items():
            self.declare(name, value, tf.int64)
        self.declare("offenders", [NOBODY] * MOST_NAMED, tf.int64)

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
        return self.write(new._asdict()), new.skips_in_a_row

    def write(self, values: dict[str, Any]) -> tf.Operation | None:
        """Assign values to the weights of those names; the operation that does it, or None if it is done."""
        return tf.group([self.weight(name).assign(value) for name, value in values.items()])

    def accuse(self, numbers: Sequence[int], codes: tf.Tensor) -> tf.Tensor:
        """Record the offenders of a skipped step, given the number of each variable and its gradient's code."""
        entries = encoded(numbers, codes)
        with tf.control_dependencies([self.weight("offenders").assign(entries)]):
            return tf.identity(entries)


def encoded(numbers: Sequence[int], codes: tf.Tensor) -> tf.Tensor:
    """The first few non-zero codes with the numbers of their variables, padded to a fixed length."""
    wide = tf.cast(codes, tf.int64)
    entries = tf.where(wide > 0, 4 * tf.constant(numbers, tf.int64) + wide, NOBODY)
    padded = tf.concat([entries, tf.fill([MOST_NAMED], tf.constant(NOBODY, tf.int64))], axis=0)
    # A stable sort of "is nobody" brings the offenders to the front in their order.
    order = tf.argsort(tf.cast(padded < 0, tf.int32), stable=True)
    return tf.gather(padded, order[:MOST_NAMED])


def decoded(entries: Sequence[int], names: Sequence[str]) -> Offenders:
    """The offenders by name; one whose name is not known yet (restored, not yet built) by its number."""
    pairs = [divmod(int(entry), 4) for entry in entries if entry != NOBODY]
    return [(names[who] if who < len(names) else f"variable {who}", VERDICTS[code]) for who, code in pairs]
