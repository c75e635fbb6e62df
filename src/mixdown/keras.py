"""For Keras 3 and tf_keras: `MixedPrecisionCallback`, which tells how loss scaling goes while `fit` runs."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from mixdown.reports import Report
    from mixdown.tensorflow.loss_scaling.optimizers.step_record import Account
    from mixdown.tensorflow.loss_scaling.tensorboard import Events

LIBRARIES = ("keras", "tf_keras")
EVENTS = (
    "mixdown.tensorflow.loss_scaling.tensorboard"  # imports TensorFlow, as does the report: not before they are needed
)


class MixedPrecisionCallback:
    """Tells how loss scaling goes, in `history.history` and to TensorBoard. For `fit` of Keras 3 or of tf_keras.

    `history.history` gets an entry an epoch under `loss_scale` (the scale at its end), `skipped_steps` (all so far) and
    `skips` (those of the epoch: the step, and the variables with "Inf" or "NaN"). The event file gets every change of
    the scale and every skip at its step, the share of float32 ops that run low, and in the end the report as text.

    An instance is a callback of every Keras that has been imported by the time it is made.

    Args:
        log_dir: where to write an event file for TensorBoard; None to write none.
    """

    model: Any  # which Keras sets
    _supports_tf_logs = False  # which tf_keras asks for

    def __new__(cls, *_: object, **__: object) -> MixedPrecisionCallback:  # noqa: PYI034 - a subclass, in fact
        """An instance of a subclass that is a callback of the Keras at hand."""
        present = [name for name in LIBRARIES if name in sys.modules] or ["keras"]
        bases = tuple(import_module(name).callbacks.Callback for name in present)
        return object.__new__(_joined(cls, bases))  # type: ignore[arg-type]  # mypy doubts that a class can be hashed

    def __init__(self, log_dir: str | Path | None = None) -> None:
        super().__init__()
        self._log_dir = log_dir
        self._events: Events | None = None
        self._skipped, self._share_is_told = 0, False
        self._skips: list[list[tuple[int, list[tuple[str, str]]]]] = []

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Open the event file. What is in the books from before is not told again."""
        del logs
        account = self._account()
        self._skipped, self._skips = (0 if account is None else account.skipped_steps), []
        self._share_is_told = False
        if self._log_dir is not None:
            self._events = import_module(EVENTS).Events(self._log_dir, account)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Tell what the epoch brought."""
        del epoch
        account = self._account()
        if account is not None:
            self._note(account, {} if logs is None else logs)
        if self._events is not None:
            self._tell(self._events, account)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Put the skips into the history, and the report into the event file."""
        del logs
        if self._skips and getattr(self.model, "history", None) is not None:
            self.model.history.history["skips"] = self._skips
        if self._events is not None:
            self._events.text("summary", f"```\n{report()}\n```", self._step())
            self._events.close()

    def _account(self) -> Account | None:
        books = getattr(self.model.optimizer, "account", None)
        return None if books is None else books()

    def _note(self, account: Account, logs: dict[str, Any]) -> None:
        logs.update(loss_scale=account.loss_scale, skipped_steps=account.skipped_steps)
        news = import_module(EVENTS).skips_after(self._skipped, account)
        self._skips.append([(skip.step, skip.offenders) for _, skip in news])
        self._skipped = account.skipped_steps

    def _tell(self, events: Events, account: Account | None) -> None:
        if account is not None:
            events.tell(account)
        if not self._share_is_told:  # once will do: by now every function of the training has been traced
            share = low_share(report())
            if share is not None:
                events.scalar("low_op_share", share, self._step())
            self._share_is_told = True
        events.flush()

    def _step(self) -> int:
        account = self._account()
        return int(self.model.optimizer.iterations) if account is None else account.steps


def report() -> Report:
    """The report of this process."""
    told: Report = import_module("mixdown.tensorflow.explaining.process_report").report()
    return told


def low_share(told: Report) -> float | None:
    """Which part of the float32 ops seen so far runs low; None if none was seen."""
    totals = [graph.totals for graph in told.graphs]
    ops = sum(each.ops for each in totals)
    return sum(each.low_ops for each in totals) / ops if ops else None


@cache
def _joined(kind: type[MixedPrecisionCallback], bases: tuple[type, ...]) -> type[MixedPrecisionCallback]:
    """A subclass that descends from these, too."""
    return type(kind.__name__, (kind, *bases), {"__doc__": kind.__doc__})
