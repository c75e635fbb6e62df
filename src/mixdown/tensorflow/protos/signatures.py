"""Op kinds: which ports a node has, and which of them share a dtype. Start with `kind_of`, then `make_signature`.

Results are cached per kind and combination of types: a graph of many thousand nodes has a few hundred of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from tensorflow.core.framework import types_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.runtime.private import op_def_registry

FLOAT, VARIANT = types_pb2.DT_FLOAT, types_pb2.DT_VARIANT
LOW_TYPES = {"float16": types_pb2.DT_HALF, "bfloat16": types_pb2.DT_BFLOAT16}
FIXED_FLOAT = "float32"  # the label of float32 ports whose dtype no attribute sets

MOST_PORTS = 2**16
"""The largest number of ports that one argument may have: it is read from the graph, which may come from anywhere."""

Values = tuple[Any, ...]
"""The values of the attributes that decide a node's ports: a dtype, a tuple of dtypes, or a count each."""

Ports = list[tuple[str, int]]
"""The label and the dtype of each port."""


class Signature(NamedTuple):
    """The float32 and variant ports of a node."""

    labels: tuple[str, ...]  # the sites: type attributes that hold float32, with the index for lists
    inputs: tuple[int, ...]  # per input port the index of its site, -1 if it is not float32
    outputs: tuple[int, ...]
    handles_in: tuple[str, ...]  # per input port the label of its variant type attribute, "" if it is not variant
    handles_out: tuple[str, ...]
    output_starts: Mapping[str, int]  # the first port of each named output


@dataclass(frozen=True)
class Kind:
    """An op definition, prepared for reading nodes quickly."""

    definition: Any
    readers: tuple[tuple[str, Callable[[Any], Any]], ...]  # attributes that decide ports, and how to read their value
    defaults: Mapping[str, Any]

    def values(self, node: Any) -> Values:
        """The values that decide the ports of a node."""
        get = node.attr.get
        return tuple([read(get(name) or self._default(name, node)) for name, read in self.readers])

    def named(self, values: Values) -> dict[str, Any]:
        """The same values by attribute."""
        return dict(zip((name for name, _ in self.readers), values, strict=True))

    def _default(self, name: str, node: Any) -> Any:
        if name not in self.defaults:
            raise GraphError(f"Node {node.name!r} ({node.op}) lacks the attribute {name!r}.")
        return self.defaults[name]


@cache
def kind_of(name: str) -> Kind | None:
    """The kind of that name, if TensorFlow registers it."""
    definition = op_def_registry.get(name)
    return None if definition is None else prepare(definition)


def unknown(node: Any) -> GraphError:
    """The error for a node whose kind is neither registered nor a function."""
    return GraphError(
        f"Node {node.name!r} has the unknown op {node.op!r}. If it is an op of your own, load its library first "
        f"(tf.load_op_library)."
    )


def prepare(definition: Any) -> Kind:
    """A kind from its op definition."""
    counts = {argument.number_attr for argument in (*definition.input_arg, *definition.output_arg)}
    readers: list[tuple[str, Callable[[Any], Any]]] = []
    for attribute in definition.attr:
        if attribute.type == "type":
            readers.append((attribute.name, lambda value: value.type))
        elif attribute.type == "list(type)":
            readers.append((attribute.name, lambda value: tuple(value.list.type)))
        elif attribute.name in counts:
            readers.append((attribute.name, lambda value: value.i))
    defaults = {a.name: a.default_value for a in definition.attr if a.HasField("default_value")}
    return Kind(definition, tuple(readers), defaults)


def make_signature(kind: Kind, values: Values) -> Signature:
    """Expand the arguments of an op definition into ports."""
    known = kind.named(values)
    inputs = _expanded(kind.definition.input_arg, known)
    starts: dict[str, int] = {}
    outputs: Ports = []
    for argument in kind.definition.output_arg:
        starts[argument.name] = len(outputs)
        outputs.extend(ports(argument, known))
    # The constructor of a tensor list has no port of its element type, which must yet agree with the list's other ops.
    portless = [(name, known[name]) for name in known if name == "element_dtype"]
    return _signature(inputs, outputs, portless, starts)


def call_signature(definition: Any) -> Signature:
    """The ports of a node whose op is a function: a site for every float32 argument and result."""
    inputs = [(f"Tin[{index}]", argument.type) for index, argument in enumerate(definition.input_arg)]
    outputs = [(f"Tout[{index}]", result.type) for index, result in enumerate(definition.output_arg)]
    starts = {result.name: index for index, result in enumerate(definition.output_arg)}
    return _signature(inputs, outputs, [], starts)


def _signature(inputs: Ports, outputs: Ports, portless: Ports, starts: Mapping[str, int]) -> Signature:
    labels = tuple(dict.fromkeys(label for label, dtype in (*inputs, *outputs, *portless) if dtype == FLOAT))
    index = {label: position for position, label in enumerate(labels)}
    return Signature(
        labels,
        tuple(index.get(label, -1) if dtype == FLOAT else -1 for label, dtype in inputs),
        tuple(index.get(label, -1) if dtype == FLOAT else -1 for label, dtype in outputs),
        tuple(label if dtype == VARIANT else "" for label, dtype in inputs),
        tuple(label if dtype == VARIANT else "" for label, dtype in outputs),
        starts,
    )


def input_types(kind: Kind, node: Any) -> list[int]:
    """The dtype of each input of a node."""
    return [dtype for _, dtype in _expanded(kind.definition.input_arg, kind.named(kind.values(node)))]


def _expanded(arguments: Iterable[Any], known: Mapping[str, Any]) -> Ports:
    return [port for argument in arguments for port in ports(argument, known)]


def ports(argument: Any, known: Mapping[str, Any]) -> Ports:
    """The ports that one argument of an op definition stands for, given the values of attributes."""
    if argument.type_list_attr:
        name = argument.type_list_attr
        return [(f"{name}[{index}]", dtype) for index, dtype in enumerate(known[name])]
    count = known[argument.number_attr] if argument.number_attr else 1
    if count > MOST_PORTS:
        raise GraphError(
            f"{argument.number_attr}={count} asks for more than {MOST_PORTS} inputs or outputs of one node."
        )
    if argument.type_attr:
        return [(argument.type_attr, known[argument.type_attr])] * count
    label = FIXED_FLOAT if argument.type == FLOAT else types_pb2.DataType.Name(argument.type)
    return [(label, argument.type)] * count
