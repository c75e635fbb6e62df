"""What was rewritten in this process so far, and what became of the loss scales: `report`."""

from dataclasses import replace
from typing import Any

from mixdown import messages
from mixdown.core import Policy
from mixdown.reports import Report
from mixdown.reports.build import Facts, graph_report
from mixdown.reports.model import GraphReport
from mixdown.rules.layer_names import python_name
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.calls.twins import Twin
from mixdown.tensorflow.loss_scaling.scaler_reports import scaler_notes, scaler_reports
from mixdown.tensorflow.machine.devices import versions
from mixdown.tensorflow.reading.products import products
from mixdown.tensorflow.runtime import source_lines
from mixdown.tensorflow.runtime.private import context
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
