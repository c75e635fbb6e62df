"""The probe behind `locate`: which tensors are finite, and the values around every op that makes non-finite ones.

TensorFlow's own health summary is one cheap pass over a tensor. All summaries of one execution of a function leave as
one record. Besides, every op that computes has a Switch node that lets values pass only if an output of the op is not
finite and all its inputs are: only then are the op's inputs and outputs copied out.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from mixdown.tensorflow.numerics.probing.channel import HOST, Channel
from mixdown.tensorflow.numerics.probing.probed_function import FLOATS, MOVERS, OPAQUE, Port, ProbedFunction
from mixdown.tensorflow.numerics.probing.trees import ProbedTree

CURT_HEALTH = 2  # DebugNumericSummaryV2: the tensor's id, and 1 if an element is Inf or NaN

PortValues = tuple[tuple[Port, Any], ...]


class Execution(NamedTuple):
    """What was seen in one execution of one function: the tensors that were not finite."""

    tree: ProbedTree
    function: ProbedFunction
    call: int  # how many calls of functions the step had made before
    ordinal: int  # how many executions of the same function the call had seen before
    bad: frozenset[str]


class Capture(NamedTuple):
    """The inputs and outputs of one op that made non-finite values."""

    function: ProbedFunction
    node: str
    inputs: PortValues
    outputs: PortValues


class _Summaries:
    """The health summaries of one function: a node for every float tensor that something reads."""

    def __init__(self, function: ProbedFunction) -> None:
        self._function = function
        self.columns: dict[str, list[str]] = {}  # summary -> the tensors that share it
        self.of: dict[str, str] = {}  # tensor -> its summary
        for port in function.arguments:
            self._add(port, "")
        for node in sorted(function.live, key=lambda node: function.order[node.name]):
            moved = function.inputs[node.name][0].text if node.op in MOVERS else ""
            for port in function.outputs[node.name]:
                if moved in self.of:
                    self._share(port.text, self.of[moved])
                else:
                    self._add(port, node.device)

    def _add(self, port: Port, device: str) -> None:
        if port.dtype in FLOATS and port.text in self._function.read:
            types = {"T": tf.as_dtype(port.dtype), "output_dtype": tf.float32}
            mode = {"tensor_debug_mode": CURT_HEALTH, "tensor_id": 0}
            node = self._function.add("DebugNumericSummaryV2", (port.text,), device, **types, **mode)
            self._share(port.text, f"{node}:output:0")

    def _share(self, tensor: str, summary: str) -> None:
        self.of[tensor] = summary
        self.columns.setdefault(summary, []).append(tensor)

    def sum(self, ports: Iterable[Port]) -> str:
        """The sum of summaries, whose second number is 0 if all these tensors are finite."""
        summaries = list(dict.fromkeys(self.of[port.text] for port in ports if port.text in self.of))
        if not summaries:
            return self._function.constant([0.0, 0.0], tf.float32)
        if len(summaries) == 1:
            return summaries[0]
        return self._function.add("AddN", summaries, HOST, T=tf.float32, N=len(summaries)) + ":sum:0"


class Health:
    """What was seen in the calls so far, in order."""

    def __init__(self) -> None:
        self.executions: list[Execution] = []
        self.captures: list[Capture] = []
        self._calls = 0
        self._summaries = Channel[tuple[ProbedTree, ProbedFunction, list[list[str]]]](tf.float32)
        self._values = Channel[tuple[ProbedFunction, str, list[Port], list[Port]]](tf.string)
        self.channels: tuple[Channel[Any], ...] = (self._summaries, self._values)

    def instrument(self, tree: ProbedTree) -> None:
        """See `runs.Probe`."""
        for function in (each for each in tree.functions if each.can_be_probed):
            summaries = _Summaries(function)
            if summaries.columns:
                for node in filter(function.computes, function.live):
                    self._capture(function, node, summaries)
                packed = function.pack(list(summaries.columns), tf.float32, HOST)
                label = (tree, function, list(summaries.columns.values()))
                function.run_also(self._summaries.send(function, packed, label))

    def _capture(self, function: ProbedFunction, node: Any, summaries: _Summaries) -> None:
        inputs = [port for port in function.inputs[node.name] if port.dtype not in OPAQUE]
        outputs = [port for port in function.outputs[node.name] if port.text in summaries.of]
        sums = (summaries.sum(outputs), summaries.sum(inputs))
        worse = function.add("Greater", sums, HOST, T=tf.float32) + ":z:0"
        axis = function.constant([0], tf.int32)
        open_ = function.add("Any", (worse, axis), HOST, Tidx=tf.int32, keep_dims=False) + ":output:0"
        values = [_serialized(function, port, open_, node.device) for port in (*inputs, *outputs)]
        # Not run_also: behind a closed Switch this node never runs, and the function must not wait for it.
        packed = function.pack(values, tf.string, HOST)
        self._values.send(function, packed, (function, node.name, inputs, outputs))

    def collect(self) -> None:
        """See `runs.Probe`."""
        seen: dict[ProbedFunction, int] = {}
        for (tree, function, columns), flags in self._summaries.records():
            flagged = zip(columns, flags[:, 1], strict=True)
            bad = frozenset(text for texts, flag in flagged if flag for text in texts)
            ordinal = seen[function] = seen.get(function, -1) + 1
            self.executions.append(Execution(tree, function, self._calls, ordinal, bad))
        for (function, node, inputs, outputs), values in self._values.records():
            pairs = zip((*inputs, *outputs), values, strict=True)
            arrays = tuple((port, tf.io.parse_tensor(value, port.dtype).numpy()) for port, value in pairs)
            self.captures.append(Capture(function, node, arrays[: len(inputs)], arrays[len(inputs) :]))
        self._calls += 1

    def forget(self) -> None:
        """Drop what was seen so far."""
        self.executions.clear()
        self.captures.clear()


def _serialized(function: ProbedFunction, port: Port, open_: str, device: str) -> str:
    """The bytes of a tensor, if the Switch lets it pass."""
    dtype = tf.as_dtype(port.dtype)
    passed = function.add("Switch", (port.text, open_), device, T=dtype) + ":output_true:0"
    return function.add("SerializeTensor", (passed,), HOST, T=dtype) + ":serialized:0"
