"""What else is in a body that holds a normalization: whether its nodes may go, and what is left. See `Surroundings`."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from mixdown.tensorflow.fusing.norms import Norm
from mixdown.tensorflow.fusing.patterns import Wires
from mixdown.tensorflow.protos.bodies import attribute, reached
from mixdown.tensorflow.protos.wiring import node_name

HARMLESS = {"_output_shapes", "_has_manual_control_dependencies"}
"""Private attributes of nodes that mean nothing once the node is gone; others may ask for something."""


class Surroundings:
    """Who reads, waits for, returns or stands beside the nodes of a body.

    Args:
        wires: the body.
        preserved: names of nodes that must stay.
    """

    def __init__(self, wires: Wires, preserved: Collection[str]) -> None:
        self._wires = wires
        self._waiting: dict[str, set[str]] = defaultdict(set)  # by the name of a node, those that wait for it
        self._beside: dict[str, set[str]] = defaultdict(set)  # likewise, those that run where it runs
        for node in wires.body.nodes:
            for text in reversed(node.input):
                if text[:1] != "^":
                    break
                self._waiting[text[1:]].add(node.name)
            for place in attribute(node, "_class").list.s:
                self._beside[place.decode(errors="replace").removeprefix("loc:@")].add(node.name)
        self._returned = {text for _, text, _ in wires.body.results}
        self._preserved = {*preserved, *(wires.body.proto.control_ret.values() if wires.body.function else ())}

    def going(self, norm: Norm) -> set[str]:
        """The nodes that a normalization no longer needs; with them, nodes that look at their shapes for nobody."""
        nodes = norm.nodes
        stay = [*norm.staying, *(["dx"] if norm.shared else ())]
        gone = set(nodes.values()) - {nodes[row] for row in stay}
        readers = {reader for name in gone for reader in self._readers(name)}
        return gone | {name for name in readers if self._wires.nodes[name].op == "Shape" and not self._readers(name)}

    def may_go(self, norm: Norm, gone: set[str]) -> bool:
        """Whether nodes can be replaced and nobody else will miss them."""
        others = {norm.node(value) for value in norm.outputs if value in norm.match}
        ends = {norm.node(value) for value in norm.ends if value in norm.match}
        return (
            gone.isdisjoint(ends)
            and self.may_replace(gone, others, {norm.node("dx")})
            and not any(self._is_summed(norm, value, gone) for value in norm.unsummed)
            and gone.isdisjoint(self._upstream(norm, ("scale", "offset")))
        )

    def may_replace(self, gone: Collection[str], others: Collection[str], known: Collection[str]) -> bool:
        """Whether other nodes can take the place of some.

        Args:
            gone: the nodes.
            others: those of them whose results anybody may read, since others make these.
            known: who may read the results of the rest.
        """
        gone = set(gone)
        nodes = [self._wires.nodes[name] for name in gone]
        return (
            gone.isdisjoint(self._preserved)
            and not any(self._is_missed(name) or self._readers(name) - gone - {*known} for name in gone - {*others})
            and all(self._waiting[name] | self._beside[name] <= gone for name in gone)
            and all(node_name(text) in gone for node in nodes for text in node.input if text[:1] == "^")
            and len({node.device for node in nodes}) == 1
            and not any(name[:1] == "_" and name not in HARMLESS for node in nodes for name in node.attr)
        )

    def _upstream(self, norm: Norm, values: Iterable[str]) -> list[str]:
        """The nodes that values depend on: one op cannot make a mean and read what is computed from it."""
        start, nodes = [norm.node(value) for value in values if value in norm.match], self._wires.nodes
        return reached(start, lambda name: map(node_name, nodes[name].input) if name in nodes else ())

    def _readers(self, name: str) -> set[str]:
        return set(self._wires.readers[self._wires.output(self._wires.nodes[name])])

    def _is_missed(self, name: str) -> bool:
        return self._wires.output(self._wires.nodes[name]) in self._returned

    def _is_summed(self, norm: Norm, value: str, gone: set[str]) -> bool:
        """Whether TensorFlow sums a gradient up, because the weight is no vector with a number a channel."""
        if value not in norm.match:
            return False
        return any(self._wires.nodes[name].op == "Sum" for name in self._readers(norm.node(value)) - gone)
