"""The probe behind `locate`: which tensors are finite, and the values around every op that makes non-finite ones.

TensorFlow's own health summary is one cheap pass over a tensor. All summaries of one execution of a function leave as
one record. Beside it, every op has a switch that opens only if its output is not finite and its inputs are: the values
behind it, and nothing else, are copied out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from mixdown.tensorflow.numerics.probing.channel import HOST, Channel
from mixdown.tensorflow.numerics.probing.ports import FLOATS, OPAQUE, Port
from mixdown.tensorflow.numerics.probing.probed_function import Sheet, a_type
from mixdown.tensorflow.protos.bodies import CALLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixdown.tensorflow.numerics.probing.trees import Tree

MOVERS = frozenset(
    {"ExpandDims", "Identity", "PreventGradient", "Reshape", "Snapshot", "Squeeze", "StopGradient", "Transpose"}
)
"""Kinds whose output is as finite as their first input, because it holds the same numbers."""

CURT_HEALTH = 2  # DebugNumericSummaryV2: the tensor's id, and 1 if an element is Inf or NaN


class Execution(NamedTuple):
    """What was seen in one execution of one function: the tensors that were not finite."""

    tree: Tree
    sheet: int
    call: int  # how many calls of functions the step had made before
    ordinal: int  # how many executions of the same function the call had seen before
    bad: frozenset[str]


class Capture(NamedTuple):
    """The inputs and outputs of one op that made non-finite values."""

    tree: Tree
    sheet: int
    node: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


@dataclass
class Health:
    """Notes per function in which order its summaries leave, and takes the records in."""

    executions: list[Execution] = field(default_factory=list)
    captures: list[Capture] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        self._records = Channel(tf.int32, tf.float32)
        self._values = Channel(tf.int32, tf.string)
        self._columns: dict[tuple[bytes, int], list[list[str]]] = {}  # per summary, the tensors that share it
        self._captured: dict[tuple[bytes, int], list[tuple[str, list[Port], list[Port]]]] = {}

    def instrument(self, tree: Tree) -> None:
        """See `runs.Probe`."""
        for sheet in tree.sheets:
            if sheet.can_be_probed:
                self._probe(tree, sheet)

    def _probe(self, tree: Tree, sheet: Sheet) -> None:
        flags = _Flags(sheet)
        if not flags.columns:
            return
        key = (tree.name, sheet.number)
        self._columns[key] = list(flags.columns.values())
        self._captured[key] = []
        for node in sheet.live:
            if can_be_culprit(sheet, node):
                self._capture(sheet, node, flags, self._captured[key])
        packed = sheet.pack(list(flags.columns), tf.float32, HOST)
        sheet.run_also([self._records.write(sheet, (sheet.constant(sheet.number, tf.int32), packed))])

    def _capture(self, sheet: Sheet, node: Any, flags: _Flags, captured: list[Any]) -> None:
        inputs = [port for port in sheet.inputs[node.name] if port.dtype not in OPAQUE]
        outputs = [port for port in sheet.outputs[node.name] if port.text in flags.of]
        bad_in = flags.sum(port.text for port in inputs)
        bad_out = flags.sum(port.text for port in outputs)
        opened = sheet.add("Greater", (bad_out, bad_in), HOST, T=a_type(tf.float32)) + ":z:0"
        axis = sheet.constant([0], tf.int32)
        kept = {"Tidx": a_type(tf.int32), "keep_dims": AttrValue(b=False)}
        opened = sheet.add("Any", (opened, axis), HOST, **kept) + ":output:0"
        values = [_serialized(sheet, port, opened, node.device) for port in (*inputs, *outputs)]
        where = sheet.constant([sheet.number, len(captured)], tf.int32)
        # No control output of the function: behind a closed switch it never runs, and nobody must wait for it.
        self._values.write(sheet, (where, sheet.pack(values, tf.string, HOST)))
        captured.append((node.name, inputs, outputs))

    def collect(self, tree: Tree) -> None:
        """See `runs.Probe`."""
        seen: dict[int, int] = {}
        for number, flags in self._records.records():
            sheet = int(number)
            columns = self._columns[tree.name, sheet]
            bad = frozenset(
                text for texts, flag in zip(columns, flags.numpy()[:, 1], strict=True) if flag for text in texts
            )
            self.executions.append(Execution(tree, sheet, self.calls, seen.get(sheet, 0), bad))
            seen[sheet] = seen.get(sheet, 0) + 1
        for where, values in self._values.records():
            sheet, position = where.numpy().tolist()
            node, inputs, outputs = self._captured[tree.name, sheet][position]
            arrays = [tf.io.parse_tensor(v, p.dtype).numpy() for v, p in zip(values, (*inputs, *outputs), strict=True)]
            self.captures.append(Capture(tree, sheet, node, tuple(arrays[: len(inputs)]), tuple(arrays[len(inputs) :])))
        self.calls += 1

    def close(self) -> None:
        """See `runs.Probe`."""
        self._records.close()
        self._values.close()


class _Flags:
    """The summaries of one function: a node for every float tensor that something reads."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self.columns: dict[str, list[str]] = {}  # summary -> the tensors that share it
        self.of: dict[str, str] = {}  # tensor -> its summary
        for port in sheet.arguments:
            self._add(port, "")
        for node in sorted(sheet.live, key=lambda node: sheet.order[node.name]):
            moved = sheet.inputs[node.name][0].text if node.op in MOVERS else ""
            for port in sheet.outputs[node.name]:
                if moved in self.of:
                    self._share(port.text, self.of[moved])
                else:
                    self._add(port, node.device)

    def _add(self, port: Port, device: str) -> None:
        if port.dtype in FLOATS and port.text in self._sheet.read:
            attributes = {"T": AttrValue(type=port.dtype), "output_dtype": a_type(tf.float32)}
            attributes |= {"tensor_debug_mode": AttrValue(i=CURT_HEALTH), "tensor_id": AttrValue(i=0)}
            node = self._sheet.add("DebugNumericSummaryV2", (port.text,), device, **attributes)
            self._share(port.text, f"{node}:output:0")

    def _share(self, tensor: str, summary: str) -> None:
        self.of[tensor] = summary
        self.columns.setdefault(summary, []).append(tensor)

    def sum(self, tensors: Iterable[str]) -> str:
        """The sum of summaries, whose second number is 0 if all these tensors are finite."""
        summaries = list(dict.fromkeys(self.of[text] for text in tensors if text in self.of))
        if not summaries:
            return self._sheet.constant([0.0, 0.0], tf.float32)
        if len(summaries) == 1:
            return summaries[0]
        count = AttrValue(i=len(summaries))
        return self._sheet.add("AddN", summaries, HOST, T=a_type(tf.float32), N=count) + ":sum:0"


def can_be_culprit(sheet: Sheet, node: Any) -> bool:
    """Whether a node computes: it makes floats of what it reads, and takes nothing from elsewhere."""
    called = node.op in CALLS or node.op in sheet.library
    reads = any(port.dtype in FLOATS and port.text in sheet.read for port in sheet.outputs[node.name])
    return reads and not (called or node.op in MOVERS or sheet.has_hidden_inputs(node.name))


def _serialized(sheet: Sheet, port: Port, opened: str, device: str) -> str:
    """The bytes of a tensor, where the switch is open."""
    dtype = AttrValue(type=port.dtype)
    passed = sheet.add("Switch", (port.text, opened), device, T=dtype) + ":output_true:0"
    return sheet.add("SerializeTensor", (passed,), HOST, T=dtype) + ":serialized:0"
