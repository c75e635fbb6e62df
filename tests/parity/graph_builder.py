"""Write GraphDefs node by node: types follow from the inputs, all other attributes from the op's definition."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# The registry of op definitions is not public (checked on 2.16 to 2.21: same module, same `get`).
from tensorflow.python.framework import op_def_registry

UNKNOWN = tf.TensorShape(None)


class GraphBuilder:
    """A GraphDef under construction that remembers the dtype of every tensor."""

    def __init__(self) -> None:
        self.graph_def = tf.compat.v1.GraphDef()
        self.dtypes: dict[str, tf.DType] = {}

    def node(
        self,
        kind: str,
        inputs: Sequence[str] = (),
        *,
        name: str = "",
        after: Sequence[str] = (),
        **attributes: Any,
    ) -> str:
        """Append a node and return its name, which is also the name of its first output.

        Args:
            kind: a registered op.
            inputs: tensor names; each must have been made before, or be declared in `dtypes`.
            name: a name no node has; the kind and a number by default.
            after: nodes that must run before this one.
            **attributes: what does not follow from the inputs or a default; dtypes as `tf.DType`.
        """
        definition = op_def_registry.get(kind)
        node = self.graph_def.node.add(name=name or f"{kind}_{len(self.graph_def.node)}", op=kind)
        node.input.extend([*inputs, *(f"^{other}" for other in after)])
        self._default_attributes(node, definition)
        self._infer_types(node, definition.input_arg, list(inputs))
        for key, value in attributes.items():
            set_attribute(node.attr[key], value)
        self._declare_outputs(node, definition)
        return node.name

    def constant(self, value: Any, dtype: tf.DType = tf.int32, *, after: Sequence[str] = ()) -> str:
        """Append a Const."""
        array = np.asarray(value, dtype.as_numpy_dtype)
        return self.node("Const", value=tf.make_tensor_proto(array), dtype=dtype, after=after)

    def import_graph(self) -> tf.Graph:
        """Prove that the graph is valid: TensorFlow checks types and shapes as it imports."""
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(self.graph_def, name="")
        return graph

    def _default_attributes(self, node: Any, definition: Any) -> None:
        for attribute in definition.attr:
            if attribute.HasField("default_value"):
                node.attr[attribute.name].CopyFrom(attribute.default_value)

    def _infer_types(self, node: Any, arguments: Sequence[Any], inputs: list[str]) -> None:
        """Give each argument its inputs; at most one argument of an op takes a number of them."""
        spare = len(inputs) - len(arguments) + 1
        for argument in arguments:
            count = spare if argument.number_attr or argument.type_list_attr else 1
            dtypes = [self.dtypes[name] for name in inputs[:count]]
            del inputs[:count]
            if argument.number_attr:
                node.attr[argument.number_attr].i = count
            if argument.type_list_attr:
                set_attribute(node.attr[argument.type_list_attr], dtypes)
            elif argument.type_attr:
                set_attribute(node.attr[argument.type_attr], base_dtype(dtypes[0]))

    def _declare_outputs(self, node: Any, definition: Any) -> None:
        dtypes = []
        for argument in definition.output_arg:
            if argument.type_list_attr:
                dtypes += [tf.as_dtype(member) for member in node.attr[argument.type_list_attr].list.type]
                continue
            number = node.attr[argument.number_attr].i if argument.number_attr else 1
            enum = node.attr[argument.type_attr].type if argument.type_attr else argument.type
            dtypes += [tf.as_dtype(enum)] * number
        for index, dtype in enumerate(dtypes):
            self.dtypes[f"{node.name}:{index}"] = dtype
        if dtypes:
            self.dtypes[node.name] = dtypes[0]


def base_dtype(dtype: tf.DType) -> tf.DType:
    """Strip the reference of a v1 variable."""
    return dtype.base_dtype


def set_attribute(attribute: Any, value: Any) -> None:
    """Put a Python value into an AttrValue."""
    match value:
        case bool():
            attribute.b = value
        case int():
            attribute.i = value
        case float():
            attribute.f = value
        case str():
            attribute.s = value.encode()
        case tf.DType():
            attribute.type = value.as_datatype_enum
        case tf.TensorShape():
            attribute.shape.CopyFrom(value.as_proto())
        case [tf.DType(), *_]:
            attribute.list.ClearField("type")
            attribute.list.type.extend(base_dtype(dtype).as_datatype_enum for dtype in value)
        case [int(), *_]:
            attribute.list.ClearField("i")
            attribute.list.i.extend(value)
        case _:
            attribute.tensor.CopyFrom(value)
