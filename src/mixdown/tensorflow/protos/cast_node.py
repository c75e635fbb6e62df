"""Cast nodes, by which a value changes its dtype: how to make one (`cast_node`), how to know one (`is_cast`)."""

from __future__ import annotations

from typing import Any

from tensorflow.core.framework import node_def_pb2
from tensorflow.core.framework.attr_value_pb2 import AttrValue


def cast_attributes(from_type: int, to_type: int) -> dict[str, Any]:
    """The attributes of a node that casts from one dtype to the other."""
    return {"SrcT": AttrValue(type=from_type), "DstT": AttrValue(type=to_type), "Truncate": AttrValue(b=False)}


def cast_node(name: str, tensor: str, from_type: int, to_type: int, device: str = "") -> Any:
    """A NodeDef that casts a tensor, which is given the way nodes of the same graph or function name it."""
    attributes = cast_attributes(from_type, to_type)
    return node_def_pb2.NodeDef(name=name, op="Cast", input=[tensor], device=device, attr=attributes)


def is_cast(node: Any, from_type: int, to_type: int) -> bool:
    """Whether a node casts from one dtype to the other."""
    return node.op == "Cast" and node.attr["SrcT"].type == from_type and node.attr["DstT"].type == to_type
