"""The nodes that take the place of a normalization: `FusedNodes`.

They take the places and names of nodes that they replace, so that rules, source lines and layers are found by these.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow import make_tensor_proto
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DT_INT32

from mixdown.tensorflow.fusing.norms import TERMS, Norm
from mixdown.tensorflow.fusing.patterns import Wires
from mixdown.tensorflow.protos.library import unused
from mixdown.tensorflow.protos.signatures import FLOAT

FORWARD, BACKWARD = "FusedBatchNormV3", "FusedBatchNormGradV3"
FIRST_RESERVE, RESERVES = 3, 3  # outputs of the one that the other reads


class FusedNodes(ABC):
    """The nodes of one normalization, and what takes the place of values that others read.

    Args:
        norm: the normalization.
        wires: the body that it is in.
        taken: the names of all nodes; grows.
    """

    layout = b"NHWC"

    def __init__(self, norm: Norm, wires: Wires, taken: set[str]) -> None:
        self.norm, self._wires, self._taken = norm, wires, taken
        self._device = wires.nodes[norm.name].device
        self.placed: dict[str, list[Any]] = {}  # by the name of a node that they replace
        self.redirected: dict[str, str] = {}  # value -> value, "" for terms of a sum that has fewer now
        self.name, self.gradient = self.write()

    @abstractmethod
    def write(self) -> tuple[str, str]:
        """Make the nodes; returns the names of the op and of the one that computes its gradients."""

    def read_instead(self, values: Mapping[str, str], dx: str) -> None:
        """Let others read other values, and `dx` in place of the gradient of the input or of its terms."""
        match = self.norm.match
        self.redirected |= {match[value]: text for value, text in values.items() if value in match}
        if self.norm.shared:
            self.redirected |= {match[TERMS[0]]: dx, **dict.fromkeys((match[term] for term in TERMS[1:]), "")}
        else:
            self.redirected[match["dx"]] = dx

    def forward(self, name: str, inputs: Sequence[str]) -> Any:
        """The op that normalizes: input, scale and offset."""
        empty = self.constant("no_statistics", [])
        node = self._fused(name, FORWARD, [*inputs, *[self.output(empty)] * 2])
        node.attr["exponential_avg_factor"].f = 1.0
        return [empty, node]

    def backward(self, name: str, forward: Any, inputs: Sequence[str]) -> Any:
        """The op that computes gradients: that of the output, input and scale."""
        reserves = [self.output(forward, FIRST_RESERVE + number) for number in range(RESERVES)]
        return self._fused(name, BACKWARD, [*inputs, *reserves])

    def _fused(self, name: str, kind: str, inputs: Sequence[str]) -> Any:
        node = NodeDef(name=name, op=kind, input=inputs, device=self._device)
        for attribute in ("T", "U"):
            node.attr[attribute].type = FLOAT
        node.attr["epsilon"].f = self.norm.epsilon
        node.attr["is_training"].b = True
        node.attr["data_format"].s = self.layout
        return node

    def op(self, name: str, kind: str, inputs: Sequence[str]) -> Any:
        """A node of one dtype."""
        node = NodeDef(name=name, op=kind, input=inputs, device=self._device)
        node.attr["T"].type = FLOAT
        return node

    def reshaped(self, name: str, text: str, shape: Sequence[int]) -> list[Any]:
        """A value in another shape: the constant with the shape, and the node."""
        wanted = self.constant(f"{name}/shape", shape, DT_INT32)
        node = self.op(self.named(name), "Reshape", [text, self.output(wanted)])
        node.attr["Tshape"].type = DT_INT32
        return [wanted, node]

    def constant(self, name: str, value: Any, dtype: int = FLOAT, shape: Sequence[int] | None = None) -> Any:
        """A constant; a single number may be repeated in a shape."""
        attributes = {"dtype": AttrValue(type=dtype), "value": AttrValue(tensor=make_tensor_proto(value, dtype, shape))}
        return NodeDef(name=self.named(name), op="Const", device=self._device, attr=attributes)

    def named(self, name: str) -> str:
        """A name that is still free, in the scope of the normalization."""
        return unused(f"{self.norm.name}/{name}", self._taken)

    def output(self, node: Any, port: int = 0) -> str:
        """How an output of a node is named."""
        return self._wires.output(node, port)
