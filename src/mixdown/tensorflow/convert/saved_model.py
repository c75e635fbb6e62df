"""A SavedModel converted, file by file. Start with `convert`.

`saved_model.pb` is rewritten without running any of it: signatures, Python objects, tables, assets and initializers
stay what they are. With 16-bit weights the checkpoint is rewritten too. All other files are copied.
"""

import shutil
from pathlib import Path
from typing import Any

from mixdown.core import Plan, Policy
from mixdown.errors import MixdownError
from mixdown.tensorflow.convert import stored_values
from mixdown.tensorflow.convert.meta_graph import note_new_kinds, rewrite_meta_graph
from mixdown.tensorflow.convert.signatures import lower_signatures
from mixdown.tensorflow.convert.weights import Stored, store_low
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import function_body, graph_body, reachable
from mixdown.tensorflow.protos.files import copied, saved_model_in
from mixdown.tensorflow.protos.library import by_name
from mixdown.tensorflow.protos.saved_names import asked_for, outputs, refuse_dangling
from mixdown.tensorflow.runtime.private import fingerprinting_utils
from mixdown.untrusted.model_files import SAVED_MODEL, SAVED_MODEL_TEXT

VARIABLES = ("variables", "variables")  # the folder of the checkpoint, and its name in there


def convert(
    source: Path, target: Path, policy: Policy, *, low_io: bool, low_weights: bool
) -> tuple[dict[str, Plan], list[str], Stored]:
    """Convert a SavedModel into a folder that does not exist yet.

    Returns:
        The plans by the names of graphs and functions, warnings, and what is stored in 16 bits.

    Raises:
        MixdownError: the SavedModel has several graphs, for low weights.
        GraphError: there is no SavedModel, or it is broken.
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
    ends = set() if low_io else outputs(meta_graph)
    plans = rewrite_meta_graph(graph_def, policy, roots=roots, preserved=asked_for(meta_graph), outputs=ends)
    if low_io:
        warnings.extend(lower_signatures(meta_graph, signatures.LOW_TYPES[policy.low]))
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
    low, before, after = signatures.LOW_TYPES[policy.low], source.joinpath(*VARIABLES), target.joinpath(*VARIABLES)
    has_values = before.with_suffix(".index").is_file()
    keys = stored_values.object_keys(before, meta_graph.object_graph_def) if has_values else {}
    stored = store_low(meta_graph, low, keys, asked_for(meta_graph) | outputs(meta_graph))
    if has_values:
        warnings.extend(
            f"{name} has values that {policy.low} cannot hold: they are infinite now. Keep its readers in float32 "
            f"(policy.with_keep) or use low='bfloat16'."
            for name in stored_values.copy(before, after, stored.keys, low)
        )
    return stored
