"""SavedModels that nobody would write who means well. `MODELS` has them by name, each made of a sound one."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.framework import graph_debug_info_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tests.reliability.hostile_graphs import UGLY
from tests.reliability.hostile_lab import CANARY, RUNNABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BINARY = "saved_model.pb"
DEBUG_INFO = "debug/saved_model_debug_info.pb"
INDEX, DATA = "variables/variables.index", "variables/variables.data-00000-of-00001"
CLIMBING = "../../../outside"


class Sound(tf.Module):
    """A model with a variable, an asset, a signature, and ops that would be noticed if they ran."""

    def __init__(self, asset: Path) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.random.normal((8, 8)), name="weight")
        self.asset = tf.saved_model.Asset(str(asset))

    @tf.function(input_signature=[tf.TensorSpec((4, 8), tf.float32)])
    def __call__(self, x: Any) -> Any:
        tf.io.write_file(CANARY, tf.io.read_file(self.asset))
        seen = tf.numpy_function(lambda value: value, [x], tf.float32, stateful=False)
        return {"y": tf.nn.relu(tf.matmul(x + tf.reshape(seen, (4, 8)), self.weight))}


def sound(folder: Path) -> Path:
    """Save the sound model."""
    (folder / "words.txt").write_text("words", "utf-8")
    model, saved = Sound(folder / "words.txt"), folder / "sound"
    tf.saved_model.save(model, str(saved), signatures=model.__call__)
    change(saved, _let_the_function_be_found)
    return saved


def change(saved: Path, edit: Callable[[Any], object]) -> None:
    """Edit the proto of a model."""
    proto = saved_model_pb2.SavedModel.FromString((saved / BINARY).read_bytes())
    edit(proto)
    (saved / BINARY).write_bytes(proto.SerializeToString())


def _let_the_function_be_found(proto: Any) -> None:
    for function in proto.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            if "token" in node.attr:
                node.attr["token"].s = RUNNABLE.encode()


def proto(edit: Callable[[Any], object]) -> Callable[[Path], None]:
    """A model whose first graph is edited."""
    return lambda saved: change(saved, lambda model: edit(model.meta_graphs[0]))


def _signature(meta: Any) -> Any:
    return meta.signature_def["serving_default"]


def _ask_for(name: str) -> Callable[[Any], None]:
    def edit(meta: Any) -> None:
        for info in (*_signature(meta).inputs.values(), *_signature(meta).outputs.values()):
            info.name = name

    return edit


def _lose_objects(meta: Any) -> None:
    for node in meta.object_graph_def.nodes:
        for child in node.children:
            child.node_id = 10**6


def _lose_bound(meta: Any) -> None:
    for saved in meta.object_graph_def.concrete_functions.values():
        saved.bound_inputs[:] = [10**6] * 50


def _lose_functions(meta: Any) -> None:
    del meta.graph_def.library.function[:]


def _rename_signature(meta: Any) -> None:
    meta.signature_def[UGLY].CopyFrom(_signature(meta))
    for child in (child for node in meta.object_graph_def.nodes for child in node.children):
        child.local_name = UGLY


def _climb(meta: Any) -> None:
    for asset in meta.asset_file_def:
        asset.filename = CLIMBING
    meta.saver_def.filename_tensor_name = CLIMBING
    for node in meta.object_graph_def.nodes:
        node.asset.asset_file_def_index = 10**6 if node.WhichOneof("kind") == "asset" else 0
    _signature(meta).method_name = CLIMBING


def _collect(meta: Any) -> None:
    meta.collection_def["variables"].bytes_list.value.append(b"\xff" * 100)


def _default(meta: Any) -> None:
    default = _signature(meta).defaults["x"]
    default.dtype = 1
    default.float_val.append(1.0)
    default.tensor_shape.dim.add(size=2**40)


def _damaged(name: str, change_bytes: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(saved: Path) -> None:
        path = saved / name
        path.write_bytes(change_bytes(path.read_bytes()))

    return edit


def _linked(target: str, name: str = "assets/link") -> Callable[[Path], None]:
    return lambda saved: (saved / name).symlink_to(target)


def _as_text(text: str) -> Callable[[Path], None]:
    def edit(saved: Path) -> None:
        (saved / BINARY).unlink()
        (saved / "saved_model.pbtxt").write_text(text, "utf-8")

    return edit


def _with_lines(fill: Callable[[Any], object]) -> Callable[[Path], None]:
    def edit(saved: Path) -> None:
        info = graph_debug_info_pb2.GraphDebugInfo()
        fill(info)
        (saved / "debug").mkdir()
        (saved / DEBUG_INFO).write_bytes(info.SerializeToString())

    return edit


def _ugly_lines(info: Any) -> None:
    info.files.append(UGLY)
    info.frames_by_id[1].func = UGLY
    info.frames_by_id[2].file_index = -(2**31)
    info.traces_by_id[1].frame_id.extend([1, 2, 3])
    info.name_to_trace_id.update({f"MatMul@{UGLY}": 1, "MatMul@": 7, UGLY: 1})


def _billions_of_frames(info: Any) -> None:
    """In one long trace that many ops share."""
    info.frames_by_id[1].line = 1
    info.traces_by_id[1].frame_id.extend([1] * 100_000)
    info.name_to_trace_id.update({f"op{number}@": 1 for number in range(50_000)})


def _noise_for_lines(saved: Path) -> None:
    (saved / "debug").mkdir()
    (saved / DEBUG_INFO).write_bytes(b"\xff" * 100)


def _extra_is_a_file(saved: Path) -> None:
    (saved / "assets.extra").write_bytes(b"")


def _data_is_a_folder(saved: Path) -> None:
    (saved / DATA).unlink()
    (saved / DATA).mkdir()


def _report_is_a_folder(saved: Path) -> None:
    (saved / "assets.extra" / "mixdown-report.html").mkdir(parents=True)


MODELS: dict[str, Callable[[Path], object]] = {
    "sound": lambda _: None,
    "no graphs": lambda saved: change(saved, lambda model: model.ClearField("meta_graphs")),
    "no signatures": proto(lambda meta: meta.signature_def.clear()),
    "no nodes": proto(lambda meta: meta.graph_def.ClearField("node")),
    "no functions": proto(_lose_functions),
    "no objects": proto(_lose_objects),
    "no bound objects": proto(_lose_bound),
    "object graph without nodes": proto(lambda meta: meta.object_graph_def.ClearField("nodes")),
    "a signature of nothing": proto(_ask_for("nowhere:0")),
    "a signature of a port": proto(_ask_for(f"{'x' * 100}:99999999999999999999")),
    "a signature without names": proto(_ask_for("")),
    "an ugly signature": proto(_rename_signature),
    "an ugly tensor": proto(_ask_for(UGLY)),
    "climbing names": proto(_climb),
    "a broken collection": proto(_collect),
    "a default of terabytes": proto(_default),
    "truncated": _damaged(BINARY, lambda data: data[: len(data) // 3]),
    "empty": _damaged(BINARY, lambda _: b""),
    "noise": _damaged(BINARY, lambda data: b"\xff" * len(data)),
    "index cut": _damaged(INDEX, lambda data: data[: len(data) // 2]),
    "index noise": _damaged(INDEX, lambda data: b"\xff" * len(data)),
    "index empty": _damaged(INDEX, lambda _: b""),
    "data cut": _damaged(DATA, lambda data: data[: len(data) // 2]),
    "data empty": _damaged(DATA, lambda _: b""),
    "data gone": lambda saved: (saved / DATA).unlink(),
    "ugly text": _as_text(UGLY),
    "deep text": _as_text("meta_graphs { graph_def { " * 2000),
    "a link to a file outside": _linked("/etc/hostname"),
    "a link to nowhere": _linked("nowhere"),
    "a link to itself": _linked("link"),
    "a link to a folder above": _linked("..", "assets/loop"),
    "a link to a device": _linked("/dev/zero"),
    "a pipe": lambda saved: os.mkfifo(saved / "assets" / "pipe"),
    "ugly lines": _with_lines(_ugly_lines),
    "billions of frames": _with_lines(_billions_of_frames),
    "noise for lines": _noise_for_lines,
    "extra is a file": _extra_is_a_file,
    "report is a folder": _report_is_a_folder,
    "a folder as data": _data_is_a_folder,
}


def made(folder: Path) -> dict[str, Path]:
    """Every model, each in a folder of its own."""
    original, out = sound(folder), {}
    for number, (name, edit) in enumerate(MODELS.items()):
        out[name] = folder / f"model{number}"
        shutil.copytree(original, out[name])
        edit(out[name])
    return out
