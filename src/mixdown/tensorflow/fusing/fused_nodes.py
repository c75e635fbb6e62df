"""A batch normalization on two ops of TensorFlow's own, FusedBatchNormV3 and its gradient: `FusedNodes`.

They take the places and names of nodes that they replace, so that rules, source lines and layers are found by these.
"""

from collections.abc import Sequence
from typing import Any

from tensorflow import make_tensor_proto
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.node_def_pb2 import NodeDef

from mixdown.tensorflow.fusing.batch_norms import BatchNorm
from mixdown.tensorflow.fusing.patterns import Wires
from mixdown.tensorflow.protos.library import unused
from mixdown.tensorflow.protos.signatures import FLOAT

FORWARD, BACKWARD = "FusedBatchNormV3", "FusedBatchNormGradV3"
Y, MEAN, VARIANCE, FIRST_RESERVE, RESERVES = 0, 1, 2, 3, 3  # outputs of the one
DX, TO_SCALE, TO_OFFSET = 0, 1, 2  # and of the other


class FusedNodes:
    """The nodes of one normalization, and what takes the place of values that others read.

    Args:
        norm: the normalization.
        wires: the body that it is in.
        taken: the names of all nodes; grows.
    """

    def __init__(self, norm: BatchNorm, wires: Wires, taken: set[str]) -> None:
        self._norm, self._wires, self._taken = norm, wires, taken
        self._device = wires.nodes[norm.name].device
        self.placed: dict[str, list[Any]] = {}  # by the name of a node that they replace
        self.redirected: dict[str, str] = {}  # value -> value, "" for terms of a sum that has fewer now
        self._write()

    def _write(self) -> None:
        norm, match = self._norm, self._norm.match
        empty = self._constant("no_statistics", [])
        before = [empty] if "scale" in match else [empty, self._constant("no_scale", [1.0] * norm.channels)]
        scale = match["scale"] if "scale" in match else self._output(before[1])
        none = self._output(empty)
        forward = self._node(norm.name, FORWARD, [match["x"], scale, match["offset"], none, none])
        forward.attr["exponential_avg_factor"].f = 1.0
        reserves = [self._output(forward, FIRST_RESERVE + number) for number in range(RESERVES)]
        backward = self._node(norm.node("to_scaled"), BACKWARD, [match["dy"], match["x"], scale, *reserves])
        self.placed = {norm.node("mean_kept"): [*before, forward], backward.name: [backward]}
        made = {"y": (forward, Y), "mean": (forward, MEAN), "dx": (backward, DX)}
        made |= {"to_offset": (backward, TO_OFFSET), "to_scale": (backward, TO_SCALE), "to_scaled": (backward, DX)}
        self.redirected = {match[value]: self._output(*port) for value, port in made.items() if value in match}
        if norm.shared:
            del self.redirected[match["dx"]]
            self.redirected |= dict.fromkeys((match["spread_mean"], match["from_variance"]), "")
        self._correct_variance(self._output(forward, VARIANCE))

    def _correct_variance(self, unbiased: str) -> None:
        """The op divides squares by their number less one, and the layer by their number."""
        norm, name = self._norm, self._norm.node("variance")
        if norm.count:
            nodes = [self._constant("correction", (norm.count - 1) / norm.count)]
        else:
            count, one = norm.match["count_of_mean"], self._constant("one", 1.0)
            less = self._float_op("count_less_one", "Sub", [count, self._output(one)])
            nodes = [one, less, self._float_op("correction", "RealDiv", [self._output(less), count])]
        # A single number has no variance, whatever a device makes of 0 / 0.
        variance = self._float_op("", "MulNoNan", [unbiased, self._output(nodes[-1])])
        variance.name = name
        self.placed[name] = [*nodes, variance]
        self.redirected[norm.match["variance"]] = self._output(variance)

    def _node(self, name: str, kind: str, inputs: Sequence[str]) -> Any:
        node = NodeDef(name=name, op=kind, input=inputs, device=self._device)
        for attribute in ("T", "U"):
            node.attr[attribute].type = FLOAT
        node.attr["epsilon"].f = self._norm.epsilon
        node.attr["is_training"].b = True
        node.attr["data_format"].s = b"NHWC"
        return node

    def _float_op(self, name: str, kind: str, inputs: Sequence[str]) -> Any:
        node = NodeDef(name=self._named(name), op=kind, input=inputs, device=self._device)
        node.attr["T"].type = FLOAT
        return node

    def _constant(self, name: str, value: Any) -> Any:
        attributes = {"dtype": AttrValue(type=FLOAT), "value": AttrValue(tensor=make_tensor_proto(value, "float32"))}
        return NodeDef(name=self._named(name), op="Const", device=self._device, attr=attributes)

    def _named(self, name: str) -> str:
        return unused(f"{self._norm.name}/{name}", self._taken)

    def _output(self, node: Any, port: int = 0) -> str:
        return self._wires.output(node, port)
