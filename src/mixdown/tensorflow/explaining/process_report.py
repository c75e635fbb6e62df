"""What was rewritten in this process so far, and what became of the loss scales: `report`.

Optimizers register with `remember` of `mixdown.scaling.step_record` and are held weakly: one that is gone is not
reported.
"""

import gc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import tensorflow as tf

from mixdown import messages
from mixdown.core import Policy
from mixdown.reports import Report
from mixdown.reports.build import Facts, graph_report
from mixdown.reports.model import GraphReport, ScalerReport, omission
from mixdown.rules.layer_names import python_name
from mixdown.scaling.step_record import StepRecord, alive, name_of
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.calls.twins import Twin
from mixdown.tensorflow.machine.devices import versions
from mixdown.tensorflow.reading.products import products
from mixdown.tensorflow.runtime import source_lines
from mixdown.tensorflow.runtime.private import BaseSession, context, eager_mode
from mixdown.tensorflow.sessions import hook
from mixdown.tuning.memory import Tuned


def report() -> Report:
    """Report on every function and session that ran, or would have run, in mixed precision, and on the loss scales."""
    functions = [
        _function(twins.policy, *made)
        for twins in active_policy.all_twins()
        for made in sorted(twins.made(), key=lambda made: made[:2])
    ]
    sessions = [_session(number, *each) for number, each in enumerate(hook.seen(), 1)]
    gone = sum(twins.gone for twins in active_policy.all_twins())
    note = f"Not listed are functions that were rewritten and that the program has deleted since: {gone}."
    return Report(
        title="Mixed precision in this process",
        versions=versions(),
        graphs=(*functions, *sessions),
        scalers=scaler_reports(),
        warnings=messages.given(),
        notes=(*([note] if gone else []), *scaler_notes()),
    )


def _function(policy: Policy, name: str, device: str, twin: Twin) -> GraphReport:
    shown = f"{python_name(name)} on {device}"
    if twin.plan is None or twin.reading is None:
        return _tuned(_left_alone(shown, "function", policy, twin.reason), twin.tuned)
    lines = source_lines.of_functions(twin.plan.graph, context())
    return _tuned(graph_report(twin.plan, shown, "function", Facts(lines, products(twin.reading))), twin.tuned)


def _tuned(graph: GraphReport, found: Tuned | None) -> GraphReport:
    """A graph with what tuning found out."""
    if found is None:
        return graph
    reason = "float32 was kept, for nothing was faster" if found.kept == "float32" else graph.reason
    return replace(graph, tuned=str(found) if found.kept else "", trials=found.trials, reason=reason)


def _session(number: int, user: Any, twin: Any, reason: str) -> GraphReport:
    name = f"session {number}"
    if twin is None:
        return GraphReport(name, "session", "float16", rewritten=False, reason=reason)
    if twin.plan is None:
        return _left_alone(name, "session", twin.policy, "it has not run anything yet")
    plan, reading, paints = twin.plan
    facts = Facts(source_lines.of_graph(plan.graph, user.graph), products(reading), paints)
    return _tuned(graph_report(plan, name, "session", facts), twin.tuned)


def _left_alone(name: str, kind: str, policy: Policy, reason: str) -> GraphReport:
    return GraphReport(name, kind, policy.low, rewritten=False, reason=reason, policy=policy.to_dict())


def scaler_reports() -> tuple[ScalerReport, ...]:
    """How every wrapped optimizer of the process has fared, in the order in which they were made.

    The counters of an optimizer in a v1 graph live in sessions: those of the open session with most steps are reported.
    """
    return tuple(ScalerReport.of(name_of(each), record) for each, record in _records() if record is not None)


def scaler_notes() -> tuple[str, ...]:
    """What the reports leave out, a sentence each."""
    unread = "The counters of {} cannot be read now. For a v1 graph, call report() while its session is open."
    found = ((name_of(each), record) for each, record in _records())
    told = (omission(name, record) if record else unread.format(name) for name, record in found)
    return tuple(filter(None, told))


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
        found = [each for each in gc.get_objects() if issubclass(type(each), BaseSession)]  # TensorFlow has no list
        for session in (each for each in found if not getattr(each, "_closed", True) and each.graph is home):
            with home.as_default(), suppress(tf.errors.OpError, RuntimeError):  # not initialised, or closed meanwhile
                yield optimizer.account(session)
