"""TensorBoard: `Events` writes the story of a loss scale into an event file; `summary_op` is for v1 sessions.

What is written is what TensorBoard's own plugins for scalars and text read; the tensorboard package is not needed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from mixdown.scaling import SkippedStep
from mixdown.scaling.skip_log import skipped_steps_of
from mixdown.tensorflow.loss_scaling.optimizers.step_record import Account, Accountable

SCALAR, TENSOR = 1, 2
"""TensorBoard's classes of data."""


class Events:
    """An event file, to be filled from time to time with what is new.

    Args:
        folder: where the file is made.
        begin: what was in the books already, and is not to be told.
    """

    def __init__(self, folder: str | Path, begin: Account | None) -> None:
        self._writer = tf.summary.create_file_writer(str(folder))
        self._steps, self._skipped = (begin.steps, begin.skipped_steps) if begin else (0, 0)

    def tell(self, account: Account) -> None:
        """Write what happened since the last time, each change of the scale and each skip at the step it came with."""
        for step, scale in account.timeline:
            if step >= self._steps:
                self.scalar("loss_scale", scale, step)
        for number, skip in skips_after(self._skipped, account):
            self.scalar("skipped_steps", number, skip.step)
            self.text("skips", offence(skip), skip.step)
        self.scalar("loss_scale", account.loss_scale, account.steps)
        self.scalar("skipped_steps", account.skipped_steps, account.steps)
        self._steps, self._skipped = account.steps, account.skipped_steps

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Write a number."""
        self._write(tag, tf.constant(value, tf.float32), step, "scalars", SCALAR)

    def text(self, tag: str, words: str, step: int) -> None:
        """Write text."""
        self._write(tag, tf.constant(words), step, "text", TENSOR)

    def _write(self, tag: str, value: tf.Tensor, step: int, plugin: str, data_class: int) -> None:
        metadata = tf.compat.v1.SummaryMetadata(data_class=data_class)
        metadata.plugin_data.plugin_name = plugin
        with tf.init_scope(), self._writer.as_default():
            tf.summary.write(f"mixdown/{tag}", value, step=step, metadata=metadata)

    def flush(self) -> None:
        """Bring everything so far onto disk."""
        self._writer.flush()

    def close(self) -> None:
        """Write no more."""
        self._writer.close()


def skips_after(number: int, account: Account) -> list[tuple[int, SkippedStep]]:
    """The skips that came after so many others, each with its own number, as far as the log still has them."""
    all_kept = enumerate(account.skips, account.skipped_steps - len(account.skips) + 1)
    return [(each, skip) for each, skip in all_kept if each > number]


def offence(skip: SkippedStep) -> str:
    """What the gradients of a skipped step held."""
    return ", ".join(f"{name} ({held})" for name, held in skip.offenders)


def summary_op(optimizer: Any) -> tf.Tensor:
    """A summary of an optimizer's loss scale in a v1 graph: its scale, its skipped steps, and a list of these.

    Run it and hand the result to `tf.compat.v1.summary.FileWriter`. It is also in the graph's collection of summaries,
    so `merge_all` includes it and a `MonitoredTrainingSession` writes it by itself. In a run that also takes a step it
    may tell of the moment before the step or after it.

    Args:
        optimizer: a `MixedPrecisionLossScaleOptimizer` or a tf_keras `LossScaleOptimizer`.

    Raises:
        TypeError: it is another kind of optimizer.
        ValueError: there is no v1 graph at hand.
    """
    if not isinstance(optimizer, Accountable):
        raise TypeError(
            f"summary_op needs an optimizer that mixdown wrapped, for v1 graphs, got {type(optimizer).__name__}. "
            "With Keras 3, pass mixdown.keras.MixedPrecisionCallback(log_dir=...) to fit."
        )
    if tf.executing_eagerly():
        raise ValueError(
            "summary_op is for v1 graphs, and no graph is being built here. "
            "In eager execution, pass mixdown.keras.MixedPrecisionCallback(log_dir=...) to fit."
        )
    return tf.compat.v1.summary.merge(list(_summaries(optimizer)))


def _summaries(optimizer: Any) -> Iterator[tf.Tensor]:
    summary, scale = tf.compat.v1.summary, optimizer._loss_scale
    yield summary.scalar("mixdown/loss_scale", scale())
    yield summary.scalar("mixdown/skipped_steps", scale.skipped_steps)
    rings = [tf.convert_to_tensor(scale.weight(name)) for name in ("skip_log", "skip_scales")]
    # Put into words by Python: only it knows the names of variables that come later.
    words = tf.numpy_function(lambda *rings: _words(rings, list(optimizer._names)), rings, tf.string)
    yield summary.text("mixdown/skips", tf.ensure_shape(words, []))


def _words(rings: Sequence[Any], names: list[str]) -> str:
    log, scales = (each.tolist() for each in rings)
    return "\n".join(f"step {each.step}: {offence(each)}" for each in skipped_steps_of(log, scales, names))
