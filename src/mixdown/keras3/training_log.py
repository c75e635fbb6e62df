"""`TrainingLog`, the base of the callbacks for Keras 3 and tf_keras: logs how loss scaling goes while `fit` runs."""

from importlib import import_module
from pathlib import Path
from typing import Any

import mixdown
from mixdown.reports import Report
from mixdown.reports.model import Totals
from mixdown.scaling import StepRecord


class TrainingLog:
    """Writes the loss scale and the skipped steps into the history of `fit` and into an event file for TensorBoard."""

    model: Any  # set by Keras

    def __init__(self, log_dir: str | Path | None = None) -> None:
        super().__init__()
        self._log_dir = log_dir
        self._events: Any = None
        self._skipped, self._share_is_written = 0, False
        self._skips: list[list[tuple[int, list[tuple[str, str]]]]] = []

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Open the event file. What was counted before is not written again."""
        del logs
        record = self._record()
        self._skipped, self._skips = (0 if record is None else record.skipped_steps), []
        self._share_is_written = False
        if self._log_dir is not None:
            writer = import_module("mixdown.tensorflow.loss_scaling.tensorboard")  # event files need TensorFlow
            self._events = writer.Events(self._log_dir, record)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add the scale and the skips of the epoch to the logs of Keras and to the event file."""
        del epoch
        record = self._record()
        if record is not None:
            if logs is not None:
                logs.update(loss_scale=record.loss_scale, skipped_steps=record.skipped_steps)
            self._skips.append([(skip.step, skip.offenders) for _, skip in record.skips_after(self._skipped)])
            self._skipped = record.skipped_steps
        if self._events is not None:
            self._write(self._events, record)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Put the skips into the history, and the report into the event file."""
        del logs
        if self._skips and getattr(self.model, "history", None) is not None:
            self.model.history.history["skips"] = self._skips
        if self._events is not None:
            self._events.text("summary", f"```\n{mixdown.report()}\n```", self._step())
            self._events.close()

    def _record(self) -> StepRecord | None:
        account = getattr(self.model.optimizer, "account", None)
        return None if account is None else account()

    def _write(self, events: Any, record: StepRecord | None) -> None:
        if not self._share_is_written:  # once: by now every function of the training has been traced
            for tag, share in shares(mixdown.report()).items():
                events.scalar(tag, share, self._step())
            self._share_is_written = True
        if record is not None:
            events.write(record)

    def _step(self) -> int:
        record = self._record()
        return int(self.model.optimizer.iterations) if record is None else record.steps


def shares(report: Report) -> dict[str, float]:
    """What part of the work seen so far runs in 16 bits, and what it moves against float32; only what is known."""
    totals = sum((graph.totals for graph in report.graphs), Totals())
    moved = sum(graph.effort.bytes for graph in report.graphs)
    parts = {
        "matrix_arithmetic_in_16_bits": (totals.low_flops, totals.flops),
        "bytes_against_float32": (moved, totals.float32_bytes),
        "ops_in_16_bits": (totals.low_ops, totals.ops),
    }
    return {tag: part / whole for tag, (part, whole) in parts.items() if whole}
