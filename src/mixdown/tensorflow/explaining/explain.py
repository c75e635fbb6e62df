"""What the rewrite would do, and why, without doing it: `explain` for people, `preview` for programs.

Both go the way that calls and `rewrite_graph_def` go (trace, read, plan, apply) and stop before anything is registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from mixdown import __version__
from mixdown.core import Policy
from mixdown.core.pricing.moved_bytes import GUESS
from mixdown.reports import Report
from mixdown.reports.build import graph_report
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.explaining.subjects import Wanted, subjects
from mixdown.tensorflow.machine.gates import closed_gate, gate_warning
from mixdown.tensorflow.machine.measurements import machine_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixdown.core import Plan
    from mixdown.core.pricing.machines import Machine
    from mixdown.core.pricing.measured import Measured
    from mixdown.tensorflow.explaining.subjects import Outcome

AS_IF = (
    "This is a preview as if every device took part: mixed precision is not in force here. Pass "
    "policy=mixdown.Policy() to see what the default policy does on this machine."
)


class Preview(NamedTuple):
    """What the rewrite makes of one function or graph."""

    name: str
    protos: tuple[Any, ...]  # a GraphDef; or FunctionDefs, the one called first; none if nothing changes
    plan: Plan

    def serialized(self) -> tuple[bytes, ...]:
        """The protos as bytes that are the same for the same protos."""
        return tuple(proto.SerializeToString(deterministic=True) for proto in self.protos)


def explain(
    target: Any,
    *args: Any,
    policy: Policy | None = None,
    fetches: Iterable[str] = (),
    feeds: Iterable[str] = (),
    signatures: Iterable[str] = (),
    device: str = "",
    **keywords: Any,
) -> Report:
    """Say what the rewrite does to a function, model or graph, op by op and cast by cast. Nothing is run or changed.

    Args:
        target: a tf.function, a concrete function, a Keras 3 or tf_keras model, a `tf.Graph`, a GraphDef, or the path
            of a SavedModel, a `.pb` or a `.pbtxt` file.
        args: what the function is called with: values, `tf.TensorSpec`s, or structures of them. For a model, its
            inputs (a forward pass), or a batch x, y and maybe sample weights, or a dataset of such (a training step).
        policy: what may be low, and where. By default the policy in force; if there is none, one for all devices.
        fetches: of a graph, the nodes or tensors that will be fetched; by default those that nothing reads.
        feeds: of a graph, the nodes or tensors that will be fed.
        signatures: of a SavedModel, the signatures to look at; by default all.
        device: a machine such as "A100" to predict the time of a run for, or "measured" for this one.
        keywords: keyword arguments that the function is called with.

    Returns:
        A report: print it, ask it `why("dense/MatMul")`, or save it as a page.

    Raises:
        TypeError: the target is none of these.
        GraphError: it cannot be traced or read.
        PolicyError: there is no such device, or this machine was not measured.
    """
    chosen, machine = _policy(policy), machine_of(device) if device else None
    wanted = Wanted(args, keywords, tuple(fetches), tuple(feeds), tuple(signatures))
    outcomes = [subject.outcome(chosen) for subject in subjects(target, wanted)]
    graphs = [graph_report(each.plan, each.name, each.kind, each.facts) for each in outcomes]
    gate = closed_gate(chosen)
    return Report(
        title=f"What mixed precision does to {outcomes[0].name if len(outcomes) == 1 else _described(target)}",
        versions=versions(),
        graphs=tuple(graphs),
        warnings=(gate_warning(chosen, gate),) if gate else (),
        notes=((AS_IF,) if policy is None and active_policy.current_policy() is None else ())
        + _idle(outcomes)
        + _guessed(outcomes)
        + (_predicted(outcomes, machine) if machine else ()),
    )


def preview(
    target: Any,
    *args: Any,
    policy: Policy | None = None,
    fetches: Iterable[str] = (),
    feeds: Iterable[str] = (),
    signatures: Iterable[str] = (),
    **keywords: Any,
) -> tuple[Preview, ...]:
    """The protos that would be run in place of a function, model or graph; arguments as for `explain`.

    A function that is called later with such arguments on this machine gets twins that equal these byte for byte.
    """
    wanted = Wanted(args, keywords, tuple(fetches), tuple(feeds), tuple(signatures))
    outcomes = [subject.outcome(_policy(policy)) for subject in subjects(target, wanted)]
    return tuple(Preview(each.name, tuple(each.protos), each.plan) for each in outcomes)


def versions() -> dict[str, str]:
    """What a report was made with."""
    return {"mixdown": __version__, "tensorflow": tf.__version__}


def _policy(policy: Policy | None) -> Policy:
    return policy or active_policy.current_policy() or Policy(devices="all")


def _idle(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """A note for every rule of the policy that matches nothing in any of the graphs."""
    each = [set(outcome.idle) for outcome in outcomes]
    return tuple(f"The rule {rule} of the policy matches nothing here." for rule in sorted(set.intersection(*each)))


def _guessed(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """A note for every graph whose plan had to guess sizes."""
    counts = [(outcome.name, outcome.plan.view.prices.guessed()) for outcome in outcomes]
    return tuple(
        f"{name}: {count} values have no known size; a dimension that is not known counts as {GUESS}."
        for name, count in counts
        if count
    )


def _predicted(outcomes: Iterable[Outcome], machine: Machine | Measured) -> tuple[str, ...]:
    return tuple(f"{outcome.name}: {outcome.plan.predicted(machine)}" for outcome in outcomes)


def _described(target: Any) -> str:
    return str(target) if isinstance(target, str) else getattr(target, "name", type(target).__name__)
