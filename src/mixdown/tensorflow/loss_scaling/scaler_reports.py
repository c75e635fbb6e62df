"""What became of every loss scale of the process: `scaler_reports`, and `scaler_notes` for what they cannot tell.

Optimizers announce themselves with `remember` and are held weakly: one that is gone is not reported.
"""

import gc
from collections.abc import Iterator
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import tensorflow as tf

from mixdown.reports.model import ScalerReport, Skip
from mixdown.tensorflow.loss_scaling.optimizers.step_record import Account
from mixdown.tensorflow.runtime.private import BaseSession

_alive: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers = count()


def remember(optimizer: Any) -> None:
    """Report this optimizer as long as it lives."""
    _alive[next(_numbers)] = optimizer


def scaler_reports() -> tuple[ScalerReport, ...]:
    """How every wrapped optimizer of the process has fared, in the order in which they were made.

    The books of an optimizer in a v1 graph live in sessions: those of the open session that has trained most are told.
    """
    return tuple(report_of(each, account) for each, account in _accounts() if account is not None)


def scaler_notes() -> tuple[str, ...]:
    """What the reports leave out, a sentence each."""
    return tuple(sentence for each, account in _accounts() if (sentence := _omission(each, account)))


def report_of(optimizer: Any, account: Account) -> ScalerReport:
    """One account as rows of a report."""
    return ScalerReport(
        name=name_of(optimizer),
        loss_scale=account.loss_scale,
        steps=account.steps,
        skipped_steps=account.skipped_steps,
        timeline=account.timeline,
        skips=tuple(Skip(each.step, tuple(each.offenders)) for each in account.skips),
    )


def name_of(optimizer: Any) -> str:
    """How the user calls the optimizer: the wrapped one's name."""
    inner = getattr(optimizer, "inner_optimizer", None)
    return str(optimizer.get_name() if inner is None else getattr(inner, "name", None) or inner._name)


def _accounts() -> Iterator[tuple[Any, Account | None]]:
    """Every optimizer with its books, or with None if they cannot be read."""
    with tf.init_scope():  # a report may be asked for while a function is traced
        for optimizer in list(_alive.values()):
            yield optimizer, max(_readable_accounts(optimizer), key=_steps, default=None)


def _steps(account: Account) -> int:
    return account.steps


def _readable_accounts(optimizer: Any) -> Iterator[Account]:
    if not hasattr(optimizer, "_loss_scale"):  # Keras 3 keeps its books in one place
        yield from [optimizer.account()] if optimizer.may_be_read else []
        return
    for home in optimizer._loss_scale.homes:
        if home is None:
            yield optimizer.account()
        else:
            yield from _accounts_in(home, optimizer)


def _accounts_in(graph: tf.Graph, optimizer: Any) -> Iterator[Account]:
    for session in _sessions_of(graph):
        with graph.as_default():
            try:
                yield optimizer.account(session)
            except (tf.errors.OpError, RuntimeError):  # not initialised, or closed meanwhile
                continue


def _sessions_of(graph: tf.Graph) -> list[Any]:
    """The open sessions of a graph. TensorFlow keeps no list of them."""
    found = [each for each in gc.get_objects() if issubclass(type(each), BaseSession)]
    return [each for each in found if not getattr(each, "_closed", True) and each.graph is graph]


def _omission(optimizer: Any, account: Account | None) -> str:
    name = name_of(optimizer)
    if account is None:
        return f"The books of {name} cannot be read now. Of a v1 graph, ask for the report while its session is open."
    if len(account.skips) < account.skipped_steps:
        return f"{name} skipped {account.skipped_steps} steps, of which the latest {len(account.skips)} are listed."
    return ""
