"""How every loss scale of the process fared: `scaler_reports`, and `scaler_notes` for what the reports leave out.

Optimizers register with `remember` of `mixdown.scaling.live_optimizers` and are held weakly: one that is gone is not
reported.
"""

import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import tensorflow as tf

from mixdown.reports.model import ScalerReport, omission
from mixdown.scaling import StepRecord
from mixdown.scaling.live_optimizers import alive, name_of
from mixdown.tensorflow.runtime.private import BaseSession, eager_mode


def scaler_reports() -> tuple[ScalerReport, ...]:
    """How every wrapped optimizer of the process has fared, in the order in which they were made.

    The counters of an optimizer in a v1 graph live in sessions: those of the open session with most steps are reported.
    """
    return tuple(ScalerReport.of(name_of(each), record) for each, record in _records() if record is not None)


def scaler_notes() -> tuple[str, ...]:
    """What the reports leave out, a sentence each."""
    return tuple(sentence for each, record in _records() if (sentence := _omission(each, record)))


def _records() -> Iterator[tuple[Any, StepRecord | None]]:
    """Every optimizer with its record, or with None if that cannot be read."""
    with tf.init_scope():  # a report may be asked for while a function is traced
        for optimizer in alive():
            yield optimizer, max(_readable_records(optimizer), key=lambda record: record.steps, default=None)


def _readable_records(optimizer: Any) -> Iterator[StepRecord]:
    if not hasattr(optimizer, "_loss_scale"):  # Keras 3 has one set of counters
        yield from [optimizer.account()] if optimizer.may_be_read else []
        return
    for home in optimizer._loss_scale.homes:
        if home is None:
            with eager_mode():  # a graph may be the default one now
                yield optimizer.account()
            continue
        for session in _sessions_of(home):
            with home.as_default(), suppress(tf.errors.OpError, RuntimeError):  # not initialised, or closed meanwhile
                yield optimizer.account(session)


def _sessions_of(graph: tf.Graph) -> list[Any]:
    """The open sessions of a graph. TensorFlow keeps no list of them."""
    found = [each for each in gc.get_objects() if issubclass(type(each), BaseSession)]
    return [each for each in found if not getattr(each, "_closed", True) and each.graph is graph]


def _omission(optimizer: Any, record: StepRecord | None) -> str:
    name = name_of(optimizer)
    if record is None:
        return f"The counters of {name} cannot be read now. For a v1 graph, call report() while its session is open."
    return omission(name, record)
