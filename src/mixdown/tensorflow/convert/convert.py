"""Models on disk in, converted models on disk out: `convert_saved_model`.

`saved_model.pb` is rewritten without running any of it: signatures, Python objects, tables, assets and initializers
stay what they are. With 16-bit weights the checkpoint is rewritten too. All other files are copied.
"""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tensorflow.core.framework import graph_pb2

from mixdown.core import Plan, Policy
from mixdown.core.policy import policy_or
from mixdown.errors import GraphError, MixdownError
from mixdown.messages import warn
from mixdown.reports import Report
from mixdown.reports.build import graph_report
from mixdown.reports.model import Totals
from mixdown.tensorflow.convert import stored_values
from mixdown.tensorflow.convert.body_editor import BodyEditor
from mixdown.tensorflow.convert.meta_graph import note_new_kinds, rewrite_meta_graph
from mixdown.tensorflow.convert.signatures import lower_signatures
from mixdown.tensorflow.convert.staging import staged
from mixdown.tensorflow.convert.weights import Stored, store_low
from mixdown.tensorflow.machine.devices import versions
from mixdown.tensorflow.protos.bodies import function_body, graph_body, reachable
from mixdown.tensorflow.protos.files import copied, proto_in, saved_model_in, telling
from mixdown.tensorflow.protos.library import by_name
from mixdown.tensorflow.protos.saved_names import asked_for, outputs_of, refuse_dangling, sinks
from mixdown.tensorflow.protos.signatures import LOW_TYPES
from mixdown.tensorflow.runtime.keras_files import exported
from mixdown.tensorflow.runtime.private import fingerprinting_utils
from mixdown.untrusted.model_files import SAVED_MODEL, SAVED_MODEL_TEXT, kind_of, refuse_target

PRECISIONS = ("float32", "low")
Precision = Literal["float32", "low"]
FEEDS = {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"}
VARIABLES = ("variables", "variables")  # the folder of the checkpoint, and its name in there


@dataclass(frozen=True)
class Conversion:
    """A converted model: where it and the page of its report are, and what is stored in 16 bits."""

    path: Path
    report: Report
    low_variables: tuple[str, ...]
    low_constants: int
    page: Path

    def __str__(self) -> str:
        sums = sum((graph.totals for graph in self.report.graphs), Totals())
        stored = f"{len(self.low_variables)} variables and {self.low_constants} constants are stored in 16 bits."
        return f"{sums.low_ops} of {sums.ops} float32 ops run in 16 bits, with {sums.casts} casts. {stored}"


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
    with telling(f"{str(target)!r} cannot be written", OSError), staged(target, overwrite=overwrite) as folder:
        made = folder / target.name
        if kind != "GraphDef":
            with exported(source) if kind == "Keras" else nullcontext(source) as saved:
                done = _convert_saved(saved, made, policy, low_io=io == "low", low_weights=low_weights)
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


def _convert_saved(
    source: Path, target: Path, policy: Policy, *, low_io: bool, low_weights: bool
) -> tuple[dict[str, Plan], list[str], Stored]:
    """Convert a SavedModel into a folder that does not exist yet.

    Gives the plans by the names of graphs and functions, warnings, and what is stored in 16 bits.
    """
    model = saved_model_in(source)
    if low_weights and len(model.meta_graphs) > 1:
        raise MixdownError(
            f"{str(source)!r} holds {len(model.meta_graphs)} graphs that share their variables: "
            f"weights='low' is for SavedModels with one."
        )
    plans: dict[str, Plan] = {}
    warnings: list[str] = []
    for meta_graph in model.meta_graphs:
        refuse_dangling(meta_graph)
        plans |= _rewrite(meta_graph, policy, warnings, low_io=low_io)
    written = (SAVED_MODEL, SAVED_MODEL_TEXT, "fingerprint.pb", *([f"{VARIABLES[1]}.*"] if low_weights else []))
    copied(source, target, shutil.ignore_patterns(*written))
    stored = _store_weights(model.meta_graphs[0], source, target, policy, warnings) if low_weights else Stored()
    for meta_graph in model.meta_graphs:
        note_new_kinds(meta_graph)
    (target / SAVED_MODEL).write_bytes(model.SerializeToString(deterministic=True))
    fingerprinting_utils.write_fingerprint(str(target))
    return plans, warnings, stored


def _rewrite(meta_graph: Any, policy: Policy, warnings: list[str], *, low_io: bool) -> dict[str, Plan]:
    """Rewrite one graph; returns the plans to report, by name."""
    graph_def, roots = meta_graph.graph_def, set(meta_graph.object_graph_def.concrete_functions)
    shown = _outermost(graph_def, roots)
    ends = set() if low_io else outputs_of(meta_graph)
    plans = rewrite_meta_graph(graph_def, policy, roots=roots, preserved=asked_for(meta_graph), outputs=ends)
    if low_io:
        warnings.extend(lower_signatures(meta_graph, LOW_TYPES[policy.low]))
    title = " ".join(meta_graph.meta_info_def.tags) or "graph"
    return {title: plans[""], **{name: plans[name] for name in shown if plans[name].changes_anything}}


def _outermost(graph_def: Any, roots: set[str]) -> list[str]:
    """The functions that can be called from outside and are called by no other."""
    library = by_name(graph_def)
    known = sorted(roots & library.keys())
    called = set(reachable(graph_body(graph_def), library))
    called.update(name for root in known for name in reachable(function_body(library[root]), library))
    return [name for name in known if name not in called]


def _store_weights(meta_graph: Any, source: Path, target: Path, policy: Policy, warnings: list[str]) -> Stored:
    """Store variables and constants in 16 bits where that can be, and write the checkpoint to match."""
    low, before, after = LOW_TYPES[policy.low], source.joinpath(*VARIABLES), target.joinpath(*VARIABLES)
    has_values = before.with_suffix(".index").is_file()
    keys = stored_values.object_keys(before, meta_graph.object_graph_def) if has_values else {}
    stored = store_low(meta_graph, low, keys, asked_for(meta_graph) | outputs_of(meta_graph))
    if has_values:
        warnings.extend(
            f"{name} has values that {policy.low} cannot hold: they are infinite now. Keep its readers in float32 "
            f"(policy.with_keep) or use low='bfloat16'."
            for name in stored_values.copy(before, after, stored.keys, low)
        )
    return stored


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
        count += stored_values.store_constants(editor, ends | feeds if proto is graph_def else set())
        editor.finish()
    target.write_bytes(graph_def.SerializeToString(deterministic=True))
    return plans[""], count


def _report(name: str, plans: Mapping[str, Plan], warnings: Sequence[str]) -> Report:
    if not any(plan.changes_anything for plan in plans.values()):
        nothing = f"Nothing in {name} can run in 16 bits under this policy: the converted model computes as before."
        warnings = [*warnings, nothing]
    graphs = tuple(graph_report(plan, graph, "graph") for graph, plan in plans.items())
    return Report(f"{name}, converted", versions(), graphs, warnings=tuple(warnings))
