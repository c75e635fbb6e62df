"""The lists that the modules of this room fill in and that become a Graph. Start with `Draft`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mixdown.core import Graph, Op, Role, Site, Tensor, Tie
from mixdown.core.graph import Constant, Shape
from mixdown.tensorflow.protos.bodies import Body
from mixdown.tensorflow.protos.signatures import Signature
from mixdown.tensorflow.protos.wiring import WiredBody
from mixdown.tensorflow.shapes.inference import Place

ARGUMENT, RESULT = -1, -2

QUOTIENTS = ("Div", "DivNoNan", "RealDiv")


class Origin(NamedTuple):
    """What an op was read from: a node, or (with `node` ARGUMENT or RESULT) an end of a function's signature."""

    body: int
    node: int
    position: int = 0


class Use(NamedTuple):
    """Where a tensor is read: an input of a node, or (with `node` RESULT) a result of a function."""

    body: int
    node: int
    position: int


class Chapter(WiredBody):
    """One body of the tree, with the sites of its nodes, arguments and results."""

    def __init__(self, index: int, body: Body, signatures: Sequence[Signature]) -> None:
        super().__init__(body, signatures, index)
        self.bases = [-1] * len(body.nodes)  # the first site of each node
        self.argument_sites = [-1] * len(body.arguments)  # -1 for an argument that is not float32
        self.result_sites = [-1] * len(body.results)
        names = [node.name for node in body.nodes]
        self.order = sorted(range(len(names)), key=names.__getitem__)  # the nodes by name

    def output_site(self, node: int, port: int) -> int:
        """The site that makes an output, -1 if it is not float32."""
        if node < 0:
            return self.argument_sites[-1 - node]
        label = self.signatures[node].outputs[port]
        return -1 if label < 0 else self.bases[node] + label

    def input_site(self, node: int, position: int) -> int:
        """The site that reads an input, -1 if it is not float32."""
        label = self.signatures[node].inputs[position]
        return -1 if label < 0 else self.bases[node] + label

    def site(self, node: int, label: str) -> int:
        """The site of a node's type attribute, -1 if it is not float32."""
        labels = self.signatures[node].labels
        return self.bases[node] + labels.index(label) if label in labels else -1


class Draft:
    """A Graph under construction."""

    def __init__(self, library: Mapping[str, Any], preserved: frozenset[str] = frozenset()) -> None:
        self.library, self.preserved = library, preserved
        self.chapters: list[Chapter] = []
        self.ops: list[Op] = []
        self.sites: list[Site] = []
        self.origins: list[Origin] = []
        self.flows: list[tuple[int, int]] = []
        self.ties: list[Tie] = []
        self._tensors: list[tuple[str, int, bool, Constant | None]] = []  # without the sites that read it
        self._consumers: list[list[int]] = []  # per tensor, as are the next two
        self.places: list[Place] = []
        self.uses: list[list[Use]] = []

    def add_op(self, op: Op, origin: Origin, sites: Sequence[Site]) -> int:
        """Add an op with its sites; returns its first site."""
        base = len(self.sites)
        self.sites.extend(sites)
        self.ops.append(op)
        self.origins.append(origin)
        return base

    def add_end(self, name: str, origin: Origin, frozen: str | None) -> int:
        """Add an argument or a result of a function; returns its site."""
        kind, function = "_Arg" if origin.node == ARGUMENT else "_Retval", self.chapters[origin.body].body.function
        site = Site(len(self.ops), "type", legal=True, kernel=True, role=Role.CONDUIT)
        return self.add_op(Op(name, kind, function, (len(self.sites),), frozen), origin, (site,))

    def add_tensor(self, name: str, maker: int, place: Place, *, folds: bool, constant: Constant | None) -> int:
        """Add a value; returns its index."""
        self._tensors.append((name, maker, folds, constant))
        self._consumers.append([])
        self.places.append(place)
        self.uses.append([])
        return len(self._tensors) - 1

    def add_use(self, tensor: int, site: int, use: Use) -> None:
        """Note that a site reads a value."""
        self._consumers[tensor].append(site)
        self.uses[tensor].append(use)

    def graph(self, shapes: Sequence[Shape], work: Sequence[int], contracts: Sequence[bool]) -> Graph:
        """The finished Graph."""
        tensors = tuple(
            Tensor(name, maker, tuple(consumers), folds, constant and constant._replace(divides=self._divides(uses)))
            for (name, maker, folds, constant), consumers, uses in zip(
                self._tensors, self._consumers, self.uses, strict=True
            )
        )
        ops, sites, ties, flows = tuple(self.ops), tuple(self.sites), tuple(self.ties), tuple(self.flows)
        return Graph(ops, sites, tensors, ties, flows, shapes, work, contracts)

    def _divides(self, uses: Sequence[Use]) -> bool:
        """Whether every reader of a value divides by it."""
        return all(
            use.node >= 0 and use.position == 1 and self.chapters[use.body].body.nodes[use.node].op in QUOTIENTS
            for use in uses
        )
