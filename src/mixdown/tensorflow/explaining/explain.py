"""What the rewrite would do to a function, model or graph, and why, without doing it: `explain`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mixdown.core import Policy
from mixdown.core.policy import policy_or
from mixdown.core.pricing.effort import effort_of, readable
from mixdown.core.pricing.machines import MACHINES, Machine
from mixdown.core.pricing.moved_bytes import GUESS
from mixdown.reports import Report
from mixdown.reports.build import graph_report
from mixdown.rules.spellings import choose
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.explaining.subjects import PlannedGraph, planned_graphs
from mixdown.tensorflow.machine.devices import versions
from mixdown.tensorflow.machine.gates import closed_gate, gate_warning

AS_IF = (
    "This is a preview as if every device took part: mixed precision is not in force here. Pass "
    "policy=mixdown.Policy() to see what the default policy does on this machine."
)

UNFUSED = (
    "every op is a kernel of its own. With jit_compile=True XLA would fuse ops into fewer kernels, and the plan, the "
    "bytes and the time would be others"
)

FEW = 10**6
"""Bytes: for less, nothing is predicted."""


def explain(
    target: Any,
    *args: Any,
    policy: Policy | None = None,
    fetches: Iterable[str] = (),
    feeds: Iterable[str] = (),
    signatures: Iterable[str] = (),
    device: str = "",
    jit_compile: bool | None = None,
    **keywords: Any,
) -> Report:
    """Say what the rewrite does to a function, model or graph, op by op and cast by cast. Nothing is run or changed.

    Args:
        target: a tf.function, a concrete function, a Keras 3 or tf_keras model, a `tf.Graph`, a GraphDef, or the path
            of a SavedModel, of a Keras model (`.keras`, `.h5`) or of a `.pb` or `.pbtxt` file.
        args: what the function is called with: values, `tf.TensorSpec`s, or structures of them. For a model, its
            inputs (a forward pass), or a batch x, y and maybe sample weights, or a dataset of such (a training step).
        policy: what may run in 16 bits, and where. By default the policy in force; if there is none, one for all
            devices.
        fetches: of a graph, the nodes or tensors that will be fetched; by default those that nothing reads.
        feeds: of a graph, the nodes or tensors that will be fed.
        signatures: of a SavedModel, the signatures to look at; by default all.
        device: a machine such as "A100" to predict the bytes and the time of a run for. A model of Keras 3 is then
            explained as Keras runs it there: compiled by XLA, if it is a GPU or TPU and all layers support that.
            Anything else is explained as it is.
        jit_compile: of a Keras model, whether XLA compiles it, if not as on the device.
        keywords: keyword arguments that the function is called with.

    Returns:
        A report: print it, ask it `why("dense/MatMul")`, or save it as a page. Its `graphs` hold the decisions as data:
        a function that is called later with such arguments on this machine runs by the same plan.

    Raises:
        TypeError: the target is none of these.
        GraphError: it cannot be traced or read, or `jit_compile` is given for something else than a Keras model.
        PolicyError: there is no such device.
    """
    in_force = policy or active_policy.current_policy()
    chosen = policy_or(in_force, Policy(devices="all"))
    if device:
        choose("device", device, tuple(MACHINES))
    machine, ends = MACHINES.get(device), {"fetches": fetches, "feeds": feeds, "signatures": signatures}
    graphs = planned_graphs(target, chosen, args, keywords, **ends, machine=machine, jit_compile=jit_compile)
    gate = closed_gate(chosen)
    named = target if isinstance(target, str) else getattr(target, "name", type(target).__name__)
    return Report(
        title=f"What mixed precision does to {graphs[0].name if len(graphs) == 1 else named}",
        versions=versions(),
        graphs=tuple(
            graph_report(each.plan, each.name, each.kind, each.facts._replace(machine=machine)) for each in graphs
        ),
        warnings=(gate_warning(chosen, gate),) if gate else (),
        notes=(
            *([] if in_force else [AS_IF]),
            *_compiled(graphs, machine, asked=jit_compile),
            *_if_compiled(graphs),
            *_notes(graphs),
        ),
    )


def _compiled(graphs: Sequence[PlannedGraph], machine: Machine | None, *, asked: bool | None) -> Iterator[str]:
    """Whether what is explained is compiled, where somebody may expect something else."""
    if asked is None and machine is None:
        return
    for each in graphs:
        if each.plan.graph.is_compiled:
            yield f"{each.name} is explained as compiled by XLA{_because(each, machine, asked=asked)}."
        else:
            yield f"{each.name} is explained as not compiled{_because(each, machine, asked=asked)}: {UNFUSED}."


def _if_compiled(graphs: Sequence[PlannedGraph]) -> Iterator[str]:
    """What functions would save if XLA compiled them."""
    for each in graphs:
        now = 0 if each.plan.graph.is_compiled else effort_of(each.plan.view.prices, each.plan.paints).bytes
        plan = each.compiled() if each.compiled and now > FEW else None
        if plan:
            then = plan.compiled_runs(plan.paints)[1].bytes
            part = f"{then / now:.2f} of these bytes ({readable(then)}, predicted)"
            yield f"{each.name}: compiled by XLA (jit_compile=True), it would move {part}."


def _because(each: PlannedGraph, machine: Machine | None, *, asked: bool | None) -> str:
    """Who decided that."""
    if asked is not None:
        return f", because you said jit_compile={asked}"
    if each.is_model and machine:
        does = "does" if each.plan.graph.is_compiled else "does not compile it"
        return f", as Keras {does} by default on one {machine.name}"
    return ", as it is"


def _notes(graphs: Sequence[PlannedGraph]) -> Iterator[str]:
    """Rules of the policy that match nothing in any graph, and sizes that had to be guessed."""
    for rule in sorted(set.intersection(*(set(each.idle) for each in graphs))):
        yield f"The rule {rule} of the policy matches nothing here."
    for each in graphs:
        if count := each.plan.view.prices.guessed():
            yield f"{each.name}: {count} values have no known size; a dimension that is not known counts as {GUESS}."
