"""Graphs that nobody would write who means well. `GRAPHS` has them by name, each as the bytes of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import function_pb2, graph_pb2, types_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

FLOAT, INT, STRING = types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_STRING
UGLY = "a\x1b[2J\x1b]0;owned\x07\u202egnp.exe\n</script><script>alert(1)</script><!--\x00\x9b31m\u2028&amp;'\""
"""What a name could do to a terminal, a page or a log."""


def node(graph_def: Any, name: str, op: str, *inputs: str, **types: int) -> Any:
    """Add a node; returns it."""
    made = graph_def.node.add(name=name, op=op, input=inputs)
    for key, value in types.items():
        made.attr[key].type = value
    return made


def constant(graph_def: Any, name: str, value: Any, dtype: int = INT) -> Any:
    made = node(graph_def, name, "Const", dtype=dtype)
    made.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
    return made


def plain(name: str = "m") -> Any:
    """x -> a product -> relu."""
    graph_def = graph_pb2.GraphDef()
    graph_def.versions.producer = 1395
    graph_def.versions.min_consumer = 12
    x = node(graph_def, "x", "Placeholder", dtype=FLOAT)
    x.attr["shape"].shape.dim.add(size=4)
    x.attr["shape"].shape.dim.add(size=4)
    node(graph_def, name, "MatMul", "x", "x", T=FLOAT)
    node(graph_def, "out", "Relu", name, T=FLOAT)
    return graph_def


def reshaped(graph_def: Any, shape: str) -> Any:
    """Let the product be of a shape that a node computes: whoever wants to know it must run that node."""
    node(graph_def, "reshaped", "Reshape", "m", shape, T=FLOAT, Tshape=INT)
    node(graph_def, "squared", "MatMul", "reshaped", "reshaped", T=FLOAT)
    node(graph_def, "softmax", "Softmax", "squared", T=FLOAT)
    return graph_def


def splits(kind: str, attribute: str, counts: list[int]) -> Any:
    """Nodes that say they have very many outputs."""
    graph_def = plain()
    constant(graph_def, "axis", 0)
    for number, count in enumerate(counts):
        inputs = ("axis", "m") if kind == "Split" else ("m",)
        made = node(graph_def, f"split{number}", kind, *inputs, T=FLOAT)
        made.attr[attribute].i = count
    return graph_def


def large_constant(*, shape_of_reshape: bool) -> Any:
    """A constant of a few bytes that says it is terabytes."""
    graph_def = plain()
    made = constant(graph_def, "huge", 1 if shape_of_reshape else 1.0, INT if shape_of_reshape else FLOAT)
    made.attr["value"].tensor.tensor_shape.dim.add(size=2**40)
    if shape_of_reshape:
        return reshaped(graph_def, "huge")
    node(graph_def, "added", "Add", "m", "huge", T=FLOAT)
    node(graph_def, "product", "MatMul", "added", "added", T=FLOAT)
    return graph_def


def computed_shape(kind: str) -> Any:
    """A shape that takes terabytes, or a look into a file, to compute."""
    graph_def = plain()
    match kind:
        case "Range":
            for name, value in (("start", 0), ("limit", 2**31 - 1), ("delta", 1)):
                constant(graph_def, name, value)
            node(graph_def, "shape", "Range", "start", "limit", "delta", Tidx=INT)
        case "Fill":
            constant(graph_def, "dims", [2**31 - 1, 2**10])
            constant(graph_def, "value", 1)
            node(graph_def, "shape", "Fill", "dims", "value", T=INT, index_type=INT)
        case "Add":  # a column and a row make a square
            constant(graph_def, "column", np.ones((4096, 1), np.int32))
            constant(graph_def, "row", np.ones((1, 4096), np.int32))
            node(graph_def, "square", "AddV2", "column", "row", T=INT)
            constant(graph_def, "flat", [-1])
            node(graph_def, "shape", "Reshape", "square", "flat", T=INT, Tshape=INT)
        case "ReadFile":
            constant(graph_def, "name", b"shape.bin", STRING)
            node(graph_def, "bytes", "ReadFile", "name")
            node(graph_def, "numbers", "DecodeRaw", "bytes", out_type=INT)
            constant(graph_def, "two", [2])
            node(graph_def, "shape", "Reshape", "numbers", "two", T=INT, Tshape=INT)
        case "PyFuncStateless":
            constant(graph_def, "argument", 0)
            made = node(graph_def, "numbers", "PyFuncStateless", "argument")
            made.attr["token"].s = b"pyfunc_0"
            made.attr["Tin"].list.type.append(INT)
            made.attr["Tout"].list.type.append(INT)
            constant(graph_def, "two", [2])
            node(graph_def, "shape", "Reshape", "numbers", "two", T=INT, Tshape=INT)
    return reshaped(graph_def, "shape")


def fed_shape(length: int) -> Any:
    """A shape that is fed, and says how long it is."""
    graph_def = plain()
    node(graph_def, "shape", "Placeholder", dtype=INT).attr["shape"].shape.dim.add(size=length)
    return reshaped(graph_def, "shape")


def doubled_concat(levels: int) -> Any:
    """A vector that is joined with itself again and again, and asked for as a shape."""
    graph_def = plain()
    constant(graph_def, "axis", 0)
    constant(graph_def, "level0", [1, 1])
    for level in range(levels):
        made = node(
            graph_def, f"level{level + 1}", "ConcatV2", f"level{level}", f"level{level}", "axis", T=INT, Tidx=INT
        )
        made.attr["N"].i = 2
    return reshaped(graph_def, f"level{levels}")


def function(name: str, calls: str = "", times: int = 1, op: str = "") -> Any:
    """A function that multiplies its argument by itself and calls another one with the product."""
    made = function_pb2.FunctionDef()
    made.signature.name = name
    made.signature.input_arg.add(name="a", type=FLOAT)
    made.signature.output_arg.add(name="r", type=FLOAT)
    product = made.node_def.add(name="product", op="MatMul", input=["a", "a"])
    product.attr["T"].type = FLOAT
    last = "product:product:0"
    for number in range(times if calls else 0):
        call = made.node_def.add(name=f"call{number}", op=op or "PartitionedCall", input=[last])
        if not op:
            call.attr["f"].func.name = calls
            call.attr["Tin"].list.type.append(FLOAT)
            call.attr["Tout"].list.type.append(FLOAT)
        last = f"call{number}:{'r' if op else 'output'}:0"
    made.ret["r"] = last
    return made


def calling(functions: list[Any], first: str) -> Any:
    graph_def = plain()
    graph_def.library.function.extend(functions)
    call = node(graph_def, "call", "PartitionedCall", "m")
    call.attr["f"].func.name = first
    call.attr["Tin"].list.type.append(FLOAT)
    call.attr["Tout"].list.type.append(FLOAT)
    return graph_def


def chain(length: int, times: int = 1) -> Any:
    """Functions that call each other in a row, the last one none."""
    made = [function(f"f{n}", f"f{n + 1}" if n + 1 < length else "", times) for n in range(length)]
    return calling(made, "f0")


def nested_loops(depth: int) -> Any:
    """Loops whose bodies are loops."""
    condition = function_pb2.FunctionDef()
    condition.signature.name = "condition"
    condition.signature.input_arg.add(name="a", type=FLOAT)
    condition.signature.output_arg.add(name="r", type=types_pb2.DT_BOOL)
    true = condition.node_def.add(name="true", op="Const")
    true.attr["dtype"].type = types_pb2.DT_BOOL
    true.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values=True, dtype=types_pb2.DT_BOOL))
    condition.ret["r"] = "true:output:0"
    bodies = [function(f"f{n}", f"f{n + 1}" if n + 1 < depth else "") for n in range(depth)]
    for body in bodies[:-1]:
        loop = body.node_def[1]
        called = loop.attr["f"].func.name
        loop.op = "StatelessWhile"
        del loop.attr["f"], loop.attr["Tin"], loop.attr["Tout"]
        loop.attr["T"].list.type.append(FLOAT)
        loop.attr["cond"].func.name, loop.attr["body"].func.name = "condition", called
    return calling([condition, *bodies], "f0")


def with_output_shapes(*sizes: int) -> Any:
    graph_def = plain()
    for made in graph_def.node:
        shape = made.attr["_output_shapes"].list.shape.add()
        for size in sizes:
            shape.dim.add(size=size)
    softmax = node(graph_def, "softmax", "Softmax", "m", T=FLOAT)
    softmax.attr["_output_shapes"].CopyFrom(graph_def.node[0].attr["_output_shapes"])
    return graph_def


def flat_convolution() -> Any:
    """A convolution between shapes that no convolution has."""
    graph_def = with_output_shapes(3)
    made = node(graph_def, "conv", "Conv2D", "m", "out", T=FLOAT)
    made.attr["data_format"].s = b"NCHW"
    made.attr["padding"].s = b"SAME"
    made.attr["strides"].list.i.extend([1, 1, 1, 1])
    return graph_def


def einsum(equation: bytes) -> Any:
    graph_def = plain()
    made = node(graph_def, "einsum", "Einsum", "m", "m", T=FLOAT)
    made.attr["N"].i = 2
    made.attr["equation"].s = equation
    return graph_def


def edited(change: Callable[[Any], object]) -> Any:
    graph_def = plain()
    change(graph_def)
    return graph_def


def nested_attributes(depth: int) -> Any:
    """Functions in attributes of functions in attributes."""
    graph_def = plain()
    value = graph_def.node[1].attr["_deep"]
    for _ in range(depth):
        value.func.name = "f"
        value = value.func.attr["_deep"]
    return graph_def


def text_nested(depth: int) -> bytes:
    """The same as text, which has no limit of its own."""
    opened = 'attr { key: "_deep" value { func { name: "f" '
    return ('node { name: "x" op: "Placeholder" ' + opened * depth + "} } } " * depth + "}").encode()


def named(name: str) -> Any:
    """A graph in which nodes, a function, its ends and a device have that name."""
    graph_def = calling([function(name, f"{name}2"), function(f"{name}2")], name)
    node(graph_def, name, "MatMul", "x", "x", T=FLOAT).device = name
    return graph_def


GRAPHS: dict[str, Callable[[], Any]] = {
    "no outputs to count": lambda: splits("Split", "num_split", [2**40]),
    "outputs below zero": lambda: splits("Unpack", "num", [-(2**40)]),
    "many large nodes": lambda: splits("Unpack", "num", list(range(60_000, 60_080))),
    "a constant of terabytes": lambda: large_constant(shape_of_reshape=False),
    "a shape of terabytes": lambda: large_constant(shape_of_reshape=True),
    "a range as a shape": lambda: computed_shape("Range"),
    "a fill as a shape": lambda: computed_shape("Fill"),
    "a square as a shape": lambda: computed_shape("Add"),
    "a file as a shape": lambda: computed_shape("ReadFile"),
    "a Python function as a shape": lambda: computed_shape("PyFuncStateless"),
    "doubled forty times": lambda: doubled_concat(40),
    "doubled to millions": lambda: doubled_concat(23),
    "a fed shape of millions": lambda: fed_shape(2**24),
    "a chain of functions": lambda: chain(500),
    "functions that call twice": lambda: chain(60, times=2),
    "loops in loops": lambda: nested_loops(300),
    "a function that calls itself": lambda: calling([function("f", "f")], "f"),
    "functions in a circle": lambda: calling([function("f", "g"), function("g", "f")], "f"),
    "a function that is its own op": lambda: calling([function("f", "f", op="f")], "f"),
    "two functions of a name": lambda: calling([function("f"), function("f", "f")], "f"),
    "a shape with too many dimensions": lambda: with_output_shapes(*[2**62] * 100_000),
    "a shape with too many elements": lambda: with_output_shapes(*[2**62] * 40),
    "a convolution without dimensions": flat_convolution,
    "an equation that is no text": lambda: einsum(b"\xff\xfe,\xff->\xff"),
    "an equation that is nonsense": lambda: einsum(b"->,->" * 1000),
    "deep attributes": lambda: nested_attributes(30),
    "a deep scope": lambda: plain("/".join("s" * 100_000)),
    "a name of a megabyte": lambda: plain("n" * 2**20),
    "an attribute of megabytes": lambda: edited(lambda g: g.node[1].attr["_x"].__setattr__("s", b"\x00" * 2**23)),
    "an ugly name": lambda: named(UGLY),
    "an ugly op": lambda: edited(lambda g: g.node[1].__setattr__("op", UGLY)),
    "an ugly input": lambda: edited(lambda g: g.node[2].input.append(UGLY)),
    "an ugly circle": lambda: edited(lambda g: g.node.add(name=UGLY, op="NoOp", input=[f"^{UGLY}"])),
    "an ugly port": lambda: edited(lambda g: g.node[2].input.__setitem__(0, f"m:{UGLY}")),
    "a port of many digits": lambda: edited(lambda g: g.node[2].input.__setitem__(0, "m:" + "9" * 5000)),
    "no name": lambda: edited(lambda g: g.node[1].__setattr__("name", "")),
    "a type that does not exist": lambda: edited(lambda g: g.node[1].attr["T"].__setattr__("type", 9999)),
    "climbing names": lambda: named("../../../../tmp/hostile"),
}


def files() -> dict[str, bytes]:
    """Every hostile graph as a file: its name, and what it holds."""
    out = {f"{name.replace(' ', '_')}.pb": make().SerializeToString() for name, make in GRAPHS.items()}
    whole = plain().SerializeToString()
    out |= {"empty.pb": b"", "noise.pb": b"\xff" * 4096, "cut.pb": whole[: len(whole) // 2], "json.pb": b'{"node": []}'}
    out |= {"deep.pbtxt": text_nested(5000), "deepish.pbtxt": text_nested(150)}
    return out | {"latin.pbtxt": b"node \xe9\x1b[2J", "ugly.pbtxt": UGLY.encode()}
