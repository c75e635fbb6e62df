"""TensorBoard: `Events` writes the changes of a loss scale and the skipped steps into an event file.

What is written is what TensorBoard's own plugins for scalars and text read; the tensorboard package is not needed.
"""

from pathlib import Path

import tensorflow as tf

from mixdown.scaling import StepRecord

SCALAR, TENSOR = 1, 2
"""TensorBoard's classes of data."""


class Events:
    """An event file in a folder; what is in the record when training begins is not written."""

    def __init__(self, folder: str | Path, begin: StepRecord | None) -> None:
        self._writer = tf.summary.create_file_writer(str(folder))
        self._steps, self._skipped = (begin.steps, begin.skipped_steps) if begin else (0, 0)

    def write(self, record: StepRecord) -> None:
        """Write what is new since the last call, each change of the scale and each skip at its step."""
        for step, scale in record.timeline:
            if step >= self._steps:
                self.scalar("loss_scale", scale, step)
        for number, skip in record.skips_after(self._skipped):
            self.scalar("skipped_steps", number, skip.step)
            self.text("skips", ", ".join(f"{name} ({held})" for name, held in skip.offenders), skip.step)
        self.scalar("loss_scale", record.loss_scale, record.steps)
        self.scalar("skipped_steps", record.skipped_steps, record.steps)
        self._steps, self._skipped = record.steps, record.skipped_steps
        self._writer.flush()

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

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
