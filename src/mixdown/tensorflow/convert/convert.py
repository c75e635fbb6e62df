"""Models on disk in, converted models on disk out: `convert_saved_model`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tensorflow.core.framework import graph_pb2

from mixdown.core import Plan, Policy
from mixdown.core.policy import policy_or
from mixdown.errors import GraphError, MixdownError
from mixdown.messages import warn
from mixdown.reports import Report
from mixdown.reports.build import graph_report
from mixdown.tensorflow.convert import saved_model
from mixdown.tensorflow.convert.body_editor import BodyEditor
from mixdown.tensorflow.convert.meta_graph import rewrite_meta_graph
from mixdown.tensorflow.convert.staging import staged
from mixdown.tensorflow.convert.stored_values import store_constants
from mixdown.tensorflow.machine.devices import versions
from mixdown.tensorflow.protos.files import proto_in
from mixdown.tensorflow.protos.library import by_name
from mixdown.tensorflow.protos.saved_names import sinks
from mixdown.tensorflow.protos.signatures import LOW_TYPES
from mixdown.tensorflow.runtime.keras_files import exported
from mixdown.untrusted.model_files import kind_of, refuse_target

PRECISIONS = ("float32", "low")
Precision = Literal["float32", "low"]
FEEDS = {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"}


@dataclass(frozen=True)
class Conversion:
    """A converted model: where it and the page of its report are, and what is stored in 16 bits."""

    path: Path
    report: Report
    low_variables: tuple[str, ...]
    low_constants: int
    page: Path

    def __str__(self) -> str:
        ops = sum(len(graph.ops) for graph in self.report.graphs)
        low = sum(len(graph.low_ops) for graph in self.report.graphs)
        casts = sum(len(graph.casts) for graph in self.report.graphs)
        stored = f"{len(self.low_variables)} variables and {self.low_constants} constants are stored in 16 bits."
        return f"{low} of {ops} float32 ops run in 16 bits, with {casts} casts. {stored}"


def convert_saved_model(
    src: str | Path,
    dst: str | Path,
    policy: Policy | None = None,
    *,
    io: Precision = "float32",
    weights: Precision = "float32",
    outputs: Sequence[str] = (),
    overwrite: bool = False,
) -> Conversion:
    """Convert a SavedModel, a Keras model or a frozen graph to mixed precision: it loads and serves without mixdown.

    It appears at `dst` complete or not at all. A report of every op goes with it, as a page and as JSON: in the
    SavedModel's `assets.extra`, or beside the frozen graph. Load it with `tf.saved_model.load`, a session, or a server;
    Keras's `load_model` builds its layers anew from their configuration, in float32.

    Args:
        src: the folder of a SavedModel, a `.keras` or `.h5` file, or a file with a GraphDef.
        dst: where the converted model goes: a folder, of a GraphDef a file.
        policy: what may run in 16 bits, and where; by default float16 on all devices, as it may serve on any.
        io: "low" lets signatures take and return 16 bits themselves.
        weights: "low" stores variables and constants in 16 bits where nothing reads them in float32.
        outputs: names of nodes of a frozen graph that keep their types, besides the nodes that no other reads.
        overwrite: replace what is at `dst`.

    Returns:
        Where the model and its report are, the report itself, and what is stored in 16 bits. It prints as a summary.

    Raises:
        MixdownError: `src` is no model, `dst` exists or cannot be written, or the options do not go together.
        GraphError: the model is broken, or has ops that are not loaded.
        PolicyError: an override of the policy matches no op of the model.
    """
    source, target, policy = Path(src), Path(dst), policy_or(policy, Policy(devices="all"))
    for option, value in {"io": io, "weights": weights}.items():
        if value not in PRECISIONS:
            raise MixdownError(f"{option} is 'float32' or 'low', not {value!r}.")
    kind = kind_of(source)
    refuse_target(source, target, overwrite=overwrite)
    if kind != "GraphDef" and outputs:
        raise MixdownError("outputs is for frozen graphs: a SavedModel has signatures, which say its outputs.")
    if kind == "GraphDef" and io == "low":
        raise MixdownError("io='low' is for SavedModels: a frozen graph has no signature that could say so.")
    low_weights = weights == "low"
    with _naming(target), staged(target, overwrite=overwrite) as folder:
        made = folder / target.name
        if kind != "GraphDef":
            with exported(source) if kind == "Keras" else nullcontext(source) as saved:
                done = saved_model.convert(saved, made, policy, low_io=io == "low", low_weights=low_weights)
            plans, warnings, (variables, _, constants) = done
            page = Path(target.name, "assets.extra", "mixdown-report.html")
        else:
            plan, constants = _convert_frozen(source, made, policy, outputs, low_weights=low_weights)
            plans, warnings, variables = {"graph": plan}, [], ()
            page = Path(f"{target.name}.mixdown-report.html")
        report = _report(source.name, plans, warnings)
        (folder / page).parent.mkdir(exist_ok=True)
        for name in (page, page.with_suffix(".json")):
            report.save(folder / name)
    for warning in report.warnings:
        warn(warning)
    return Conversion(target, report, variables, constants, target.parent / page)


def _convert_frozen(
    source: Path, target: Path, policy: Policy, outputs: Sequence[str], *, low_weights: bool
) -> tuple[Plan, int]:
    """Convert a GraphDef from file to file; returns its plan, and how many constants are stored in 16 bits."""
    graph_def = proto_in(source, graph_pb2.GraphDef, "holds no GraphDef")
    if not graph_def.node:
        raise GraphError(f"The GraphDef in {str(source)!r} has no nodes. A saved_model.pb is converted by its folder.")
    if missing := sorted(set(outputs) - {node.name for node in graph_def.node}):
        raise GraphError(f"The graph has no node {', '.join(map(repr, missing))} that could be an output.")
    ends = {*sinks(graph_def), *outputs}
    feeds = {node.name for node in graph_def.node if node.op in FEEDS}
    plans = rewrite_meta_graph(graph_def, policy, roots=(), preserved=feeds, outputs=ends)
    library, count = by_name(graph_def), 0
    for proto in (graph_def, *library.values()) if low_weights else ():
        editor = BodyEditor(proto, library, LOW_TYPES[policy.low])
        count += store_constants(editor, ends | feeds if proto is graph_def else set())
        editor.finish()
    target.write_bytes(graph_def.SerializeToString(deterministic=True))
    return plans[""], count


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Let errors of writing name the target, not the folder that it is made in."""
    try:
        yield
    except OSError as error:
        raise MixdownError(f"{str(target)!r} cannot be written: {error}.") from None


def _report(name: str, plans: Mapping[str, Plan], warnings: Sequence[str]) -> Report:
    if not any(plan.changes_anything for plan in plans.values()):
        nothing = f"Nothing in {name} can run in 16 bits under this policy: the converted model computes as before."
        warnings = [*warnings, nothing]
    graphs = tuple(graph_report(plan, graph, "graph") for graph, plan in plans.items())
    return Report(f"{name}, converted", versions(), graphs, warnings=tuple(warnings))
