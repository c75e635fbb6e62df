"""Op kinds: which ports a node has, which of them share a dtype, and where a 16-bit version can run.

Start with `Kinds.signature`. Everything is remembered per kind and combination of types: a graph of many thousand nodes
has a few hundred of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.runtime.private import kernel_registry, op_def_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FLOAT, VARIANT = types_pb2.DT_FLOAT, types_pb2.DT_VARIANT
LOW_TYPES = {"float16": types_pb2.DT_HALF, "bfloat16": types_pb2.DT_BFLOAT16}
FIXED_FLOAT = "float32"  # the label of ports whose dtype the op's definition fixes
QUANTIZED = {types_pb2.DT_QINT8, types_pb2.DT_QUINT8, types_pb2.DT_QINT16, types_pb2.DT_QUINT16, types_pb2.DT_QINT32}
ANY_DEVICE = "DEFAULT"  # the device type of kernels that run everywhere

MOST_PORTS = 2**16
"""So many inputs or outputs of one kind may a node have: the number is written in the graph, and could be any."""

Values = tuple[Any, ...]
"""The values of the attributes that decide a node's ports: a dtype, a tuple of dtypes, or a count each."""


Ports = list[tuple[str, int]]
"""The label and the dtype of each port."""


class Signature(NamedTuple):
    """The ports of a node, as far as painting is concerned."""

    labels: tuple[str, ...]  # the sites: type attributes that hold float32, with the index for lists
    inputs: tuple[int, ...]  # per input port the index of its site, -1 if it is not float32
    outputs: tuple[int, ...]
    handles_in: tuple[str, ...]  # per input port the label of its variant type attribute, "" if it is not variant
    handles_out: tuple[str, ...]
    output_starts: Mapping[str, int]  # the first port of each named output


class Support(NamedTuple):
    """Whether a site can hold the low dtype: by definition of the op, and by its kernels on one type of device."""

    legal: bool
    kernel: bool
    together: bool = False  # only if all sites of the op do


@dataclass(frozen=True)
class Kind:
    """An op definition, prepared for reading nodes quickly."""

    definition: Any
    readers: tuple[tuple[str, Callable[[Any], Any]], ...]
    defaults: Mapping[str, Any]

    def values(self, node: Any) -> Values:
        """The values that decide the ports of a node."""
        get = node.attr.get
        return tuple([read(get(name) or self._default(name, node)) for name, read in self.readers])

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
    """The complaint about a node whose kind is neither registered nor a function."""
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
    known = dict(zip((name for name, _ in kind.readers), values, strict=True))
    inputs = [port for argument in kind.definition.input_arg for port in ports(argument, known)]
    starts: dict[str, int] = {}
    outputs: Ports = []
    for argument in kind.definition.output_arg:
        starts[argument.name] = len(outputs)
        outputs.extend(ports(argument, known))
    # A tensor list's constructor has no port of its element type, yet it must agree with those who use the list.
    portless = [(name, known[name]) for name in known if name == "element_dtype"]
    return _signature(inputs, outputs, portless, starts)


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


def call_signature(definition: Any) -> Signature:
    """The ports of a node whose op is a function: a site for every float32 argument and result."""
    inputs = [(f"Tin[{index}]", argument.type) for index, argument in enumerate(definition.input_arg)]
    outputs = [(f"Tout[{index}]", result.type) for index, result in enumerate(definition.output_arg)]
    starts = {result.name: index for index, result in enumerate(definition.output_arg)}
    return _signature(inputs, outputs, [], starts)


def ports(argument: Any, known: Mapping[str, Any]) -> Ports:
    """The (label, dtype) of each port that an argument of an op definition stands for."""
    if argument.type_list_attr:
        name = argument.type_list_attr
        return [(f"{name}[{index}]", dtype) for index, dtype in enumerate(known[name])]
    label, dtype = (argument.type_attr, known[argument.type_attr]) if argument.type_attr else _fixed(argument)
    count = known[argument.number_attr] if argument.number_attr else 1
    if count > MOST_PORTS:
        raise GraphError(
            f"{argument.number_attr}={count} asks for more than {MOST_PORTS} inputs or outputs of one node."
        )
    return [(label, dtype)] * count


def _fixed(argument: Any) -> tuple[str, int]:
    return (FIXED_FLOAT if argument.type == FLOAT else types_pb2.DataType.Name(argument.type), argument.type)


def make_support(kind: Kind, values: Values, labels: tuple[str, ...], low: int, device: str) -> tuple[Support, ...]:
    """Whether each site of a node can be low on a type of device."""
    known = dict(zip((name for name, _ in kind.readers), values, strict=True))
    legal = [_legal(kind.definition, known, label, low) for label in labels]
    alone = [
        fits and _has_kernel(kind.definition.name, _lowered(known, [label], low), device)
        for label, fits in zip(labels, legal, strict=True)
    ]
    if len(labels) > 1 and all(legal) and not any(alone):
        joint = _has_kernel(kind.definition.name, _lowered(known, labels, low), device)
        return tuple(Support(legal=True, kernel=joint, together=joint) for _ in labels)
    return tuple(Support(fits, kernel) for fits, kernel in zip(legal, alone, strict=True))


def can_run(kind: Kind, values: Values, label: str, low: int, device: str) -> bool:
    """Whether there is a kernel for a node with one of its sites low, whatever a plan may do to that site."""
    known = dict(zip((name for name, _ in kind.readers), values, strict=True))
    return _has_kernel(kind.definition.name, _lowered(known, [label], low), device)


def _legal(definition: Any, known: Mapping[str, Any], label: str, low: int) -> bool:
    name = label.partition("[")[0]
    attribute = next((a for a in definition.attr if a.name == name), None)
    references = any(a.is_ref for a in (*definition.input_arg, *definition.output_arg))
    quantized = any(value in QUANTIZED for value in known.values() if isinstance(value, int))
    # The value of a constant, of a variable or of a stack keeps its dtype, and so does whoever reads or writes it.
    stored = any(a.type == types_pb2.DT_RESOURCE for a in definition.input_arg)
    written = any(a.type == "tensor" for a in definition.attr)
    if attribute is None or references or quantized or stored or written:
        return False
    allowed = attribute.allowed_values.list.type
    return not allowed or low in allowed


def _lowered(known: Mapping[str, Any], labels: Any, low: int) -> dict[str, Any]:
    """The attribute values once these sites are low."""
    out = dict(known)
    for label in labels:
        name, _, index = label.rstrip("]").partition("[")
        if index:
            out[name] = tuple(low if position == int(index) else dtype for position, dtype in enumerate(out[name]))
        else:
            out[name] = low
    return out


def _has_kernel(name: str, known: Mapping[str, Any], device: str) -> bool:
    return any(
        registered in (device, ANY_DEVICE) and all(_admits(allowed, known.get(attr)) for attr, allowed in constraints)
        for registered, constraints in registered_kernels(name)
    )


def _admits(allowed: frozenset[int], value: Any) -> bool:
    return value is None or (all(v in allowed for v in value) if isinstance(value, tuple) else value in allowed)


@cache
def registered_kernels(name: str) -> list[tuple[str, list[tuple[str, frozenset[int]]]]]:
    """The kernels of a kind: the type of device and the dtypes each attribute may have."""
    found = kernel_registry.get_registered_kernels_for_op(name).kernel
    return [
        (k.device_type, [(c.name, frozenset(c.allowed_values.list.type)) for c in k.constraint])
        for k in found
        if not k.label
    ]


@cache
def compiler_of(device: str) -> str:
    """The name under which XLA's ops for a type of device stand in the registry of kernels.

    TensorFlow adds them when the first function is compiled, so one is.
    """
    tf.function(lambda: tf.constant(0), jit_compile=True)()
    registered_kernels.cache_clear()
    has_kernels_for.cache_clear()
    return f"XLA_{device}_JIT"


@cache
def has_kernels_for(device: str) -> bool:
    """Whether this TensorFlow was built with kernels for a type of device."""
    return any(registered == device for registered, _ in registered_kernels("MatMul"))
