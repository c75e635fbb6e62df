"""Which sites of a node can hold a 16-bit dtype: by definition of the op, and by the kernels of a type of device.

Start with `make_support`.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from mixdown.tensorflow.protos.signatures import Kind, Values
from mixdown.tensorflow.runtime.private import kernel_registry

QUANTIZED = {types_pb2.DT_QINT8, types_pb2.DT_QUINT8, types_pb2.DT_QINT16, types_pb2.DT_QUINT16, types_pb2.DT_QINT32}
ANY_DEVICE = "DEFAULT"  # the device type of kernels that run everywhere
ALIKE = frozenset(["MaxPool3DGrad"])  # XLA registers each dtype for each attribute, and fails if two differ


class Support(NamedTuple):
    """Whether a site can hold the 16-bit dtype."""

    legal: bool  # the op is defined for it
    kernel: bool  # the device has a kernel for it
    together: bool = False  # only if all sites of the op hold it


def make_support(kind: Kind, values: Values, labels: tuple[str, ...], low: int, device: str) -> tuple[Support, ...]:
    """Whether each site of a node can hold the dtype `low` on a type of device."""
    known = kind.named(values)
    names = [label.partition("[")[0] for label in labels]  # the float32 elements of one list are alike
    first = dict(zip(reversed(names), reversed(labels), strict=True))
    legal = {name: _legal(kind.definition, known, name, low) for name in first}
    alone = {
        name: legal[name] and _has_kernel(kind.definition.name, _lowered(known, [label], low), device)
        for name, label in first.items()
    }
    name = kind.definition.name
    if len(labels) > 1 and all(legal.values()) and (name in ALIKE or not any(alone.values())):
        joint = _has_kernel(name, _lowered(known, labels, low), device)
        return tuple(Support(legal=True, kernel=joint, together=joint) for _ in labels)
    return tuple(Support(legal[name], alone[name]) for name in names)


def can_run(kind: Kind, values: Values, label: str, low: int, device: str) -> bool:
    """Whether there is a kernel for a node with `low` at one site, even at one that a plan may not change."""
    return _has_kernel(kind.definition.name, _lowered(kind.named(values), [label], low), device)


def _legal(definition: Any, known: Mapping[str, Any], name: str, low: int) -> bool:
    attribute = next((a for a in definition.attr if a.name == name), None)
    references = any(a.is_ref for a in (*definition.input_arg, *definition.output_arg))
    quantized = any(value in QUANTIZED for value in known.values() if isinstance(value, int))
    # The value of a constant, variable or stack keeps its dtype, and so do the ops that read or write it.
    stored = any(a.type == types_pb2.DT_RESOURCE for a in definition.input_arg)
    written = any(a.type == "tensor" for a in definition.attr)
    if attribute is None or references or quantized or stored or written:
        return False
    allowed = attribute.allowed_values.list.type
    return not allowed or low in allowed


def _lowered(known: Mapping[str, Any], labels: Any, low: int) -> dict[str, Any]:
    """The attribute values with `low` at these sites."""
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
    """The kernels of a kind: the type of device, and the dtypes that each attribute may have."""
    found = kernel_registry.get_registered_kernels_for_op(name).kernel
    return [
        (k.device_type, [(c.name, frozenset(c.allowed_values.list.type)) for c in k.constraint])
        for k in found
        if not k.label
    ]


@cache
def compiler_of(device: str) -> str:
    """The device type under which XLA's kernels for a type of device are registered.

    TensorFlow registers them when it compiles the first function, so this compiles one.
    """
    tf.function(lambda: tf.constant(0), jit_compile=True)()
    registered_kernels.cache_clear()
    has_kernels_for.cache_clear()
    return f"XLA_{device}_JIT"


@cache
def has_kernels_for(device: str) -> bool:
    """Whether this TensorFlow was built with kernels for a type of device."""
    return any(registered == device for registered, _ in registered_kernels("MatMul"))
