"""Broken graphs: each gets a GraphError that names the culprit, and nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import tensorflow as tf
from tests.tensorflow.graph_kit import CPU, find, graph_of, loops_of_tensorflow_1, matmul, out, raw, x

from mixdown import rewrite_graph_def
from mixdown.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Callable

HALF = tf.float16.as_datatype_enum


def plain() -> Any:
    """x -> m -> r -> s -> out, with a Pack and an int on the side."""

    def build() -> None:
        product = matmul(x(), x("y"), "m")
        relu = raw.Relu(features=product, name="r")
        raw.Pack(values=[relu, relu], name="pack")
        raw.AddV2(x=1, y=2, name="int")
        out(raw.Sigmoid(x=relu, name="s"))

    return graph_of(build)


def calling() -> Any:
    """A graph that calls a function with two arguments, and a conditional."""

    @tf.function(autograph=False)
    def inner(a: Any, b: Any) -> Any:
        return matmul(a, b, "inside")

    def build() -> None:
        value = inner(x(), x("y"))
        out(tf.cond(tf.constant(value=True), lambda: value + 1, lambda: value))

    return graph_of(build)


def looping() -> Any:
    """A loop of TensorFlow 1: a cycle that is legal."""

    def build() -> None:
        start = x()
        with loops_of_tensorflow_1():
            out(tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, tf.nn.relu(v)), (0, start))[1])

    return graph_of(build)


def function(graph_def: Any) -> Any:
    """The function with the product."""
    return next(f for f in graph_def.library.function if any(node.name == "inside" for node in f.node_def))


def call(graph_def: Any) -> Any:
    return next(node for node in graph_def.node if node.op == "PartitionedCall")


def setting(**fields: Any) -> Callable[[Any], None]:
    """Set fields of the node m."""

    def change(graph_def: Any) -> None:
        for name, value in fields.items():
            setattr(find(graph_def, "m"), name, value)

    return change


def wiring(node: str, *inputs: str) -> Callable[[Any], None]:
    """Give a node other inputs."""

    def change(graph_def: Any) -> None:
        del find(graph_def, node).input[:]
        find(graph_def, node).input.extend(inputs)

    return change


def without(node: str, attribute: str) -> Callable[[Any], None]:
    return lambda graph_def: find(graph_def, node).attr.pop(attribute)


def a_second_m(graph_def: Any) -> None:
    graph_def.node.add().CopyFrom(find(graph_def, "m"))


def an_argument_less(graph_def: Any) -> None:
    del call(graph_def).input[1]
    del call(graph_def).attr["Tin"].list.type[1]


def a_result_more(graph_def: Any) -> None:
    call(graph_def).attr["Tout"].list.type.append(tf.float32.as_datatype_enum)


def a_round_trip(graph_def: Any) -> None:
    wiring("r", "s")(graph_def)


def a_wrong_result(graph_def: Any) -> None:
    for name in function(graph_def).ret:
        function(graph_def).ret[name] = "inside:product:1"


def a_half_argument(graph_def: Any) -> None:
    function(graph_def).signature.input_arg[0].type = HALF


def a_half_call(graph_def: Any) -> None:
    call(graph_def).attr["Tin"].list.type[0] = HALF


CASES: list[tuple[Any, ...]] = [
    (
        "unknown op",
        plain,
        setting(op="MatMulX"),
        "Node 'm' has the unknown op 'MatMulX'. If it is an op of your own, load its library first (tf.load_op_",
    ),
    ("missing type", plain, without("m", "T"), "Node 'm' (MatMul) lacks the attribute 'T'."),
    ("missing count", plain, without("pack", "N"), "Node 'pack' (Pack) lacks the attribute 'N'."),
    ("missing function", calling, lambda g: call(g).attr.pop("f"), "(PartitionedCall) lacks the attribute 'f'."),
    ("dangling input", plain, wiring("r", "gone"), "An input of node 'r' (Relu) is 'gone', which does not exist."),
    ("dangling port", plain, wiring("r", "m:1"), "An input of node 'r' (Relu) is 'm:1', which does not exist."),
    ("negative port", plain, wiring("r", "m:-1"), "An input of node 'r' (Relu) is 'm:-1', which does not exist."),
    (
        "port that is no number",
        plain,
        wiring("r", "m:x"),
        "An input of node 'r' (Relu) is 'm:x', which does not exist.",
    ),
    (
        "port of a port",
        plain,
        wiring("r", "m:product:0"),
        "An input of node 'r' (Relu) is 'm:product:0', which does not exist.",
    ),
    (
        "dangling control input",
        plain,
        wiring("r", "m", "^gone"),
        "Node 'r' (Relu) waits for 'gone', which does not exist.",
    ),
    ("an input too few", plain, wiring("m", "x"), "Node 'm' (MatMul) has 1 inputs, its op takes 2."),
    ("an input too many", plain, wiring("r", "m", "m"), "Node 'r' (Relu) has 2 inputs, its op takes 1."),
    ("two nodes of a name", plain, a_second_m, "Two nodes are named 'm'."),
    ("cycle", plain, a_round_trip, "There is a cycle outside a loop: "),
    ("cycle of one", plain, wiring("r", "r"), "There is a cycle outside a loop: r -> r."),
    ("cycle of control inputs", plain, wiring("m", "x", "y", "^r"), "There is a cycle outside a loop: "),
    ("float32 read from an int", plain, wiring("r", "int"), "The output 0 of 'int' is read as float32, but it is not."),
    ("an int read from float32", plain, wiring("int", "m", "m"), "'int'"),
    (
        "control input before a data input",
        plain,
        wiring("r", "^x", "m"),
        "'r'",
    ),
    ("an argument too few", calling, an_argument_less, "differ in the number of arguments or results."),
    ("a result too many", calling, a_result_more, "differ in the number of arguments or results."),
    ("an argument read as another type", calling, a_half_argument, "The output 0 of 'a' is read as float32, but it is"),
    ("a call with another type", calling, a_half_call, "PartitionedCall"),
    (
        "a dangling input in a function",
        calling,
        lambda g: function(g).node_def[0].input.__setitem__(0, "gone:z:0"),
        "An input of node 'inside' (MatMul) in function ",
    ),
    (
        "an input in a function that is no output",
        calling,
        lambda g: function(g).node_def[-1].input.__setitem__(0, "inside"),
        "An input of node ",
    ),
    ("a result of a function that does not exist", calling, a_wrong_result, "An input of result "),
    (
        "a dangling control input in a function",
        calling,
        lambda g: function(g).node_def[0].input.append("^gone"),
        " in function ",
    ),
]


@pytest.mark.parametrize(
    ("build", "change", "message"),
    [pytest.param(*case[1:4], id=case[0], marks=case[4:]) for case in CASES],
)
def test_a_broken_graph_is_refused_by_name(build: Any, change: Any, message: str) -> None:
    graph_def = build()
    change(graph_def)
    before = graph_def.SerializeToString(deterministic=True)
    with pytest.raises(GraphError) as refused:
        rewrite_graph_def(graph_def, ["out"], policy=CPU)
    assert message in str(refused.value)
    assert graph_def.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("build", [plain, calling, looping])
def test_the_same_graphs_unbroken_are_accepted(build: Any) -> None:
    assert rewrite_graph_def(build(), ["out"], policy=CPU)


@pytest.mark.parametrize(
    ("fetches", "feeds", "message"),
    [
        (["gone"], [], "The graph has no node 'gone' to feed or fetch."),
        (["out:0", "gone:0"], [], "The graph has no node 'gone' to feed or fetch."),
        (["^gone"], [], "The graph has no node 'gone' to feed or fetch."),
        (["out"], ["b", "a"], "The graph has no node 'a', 'b' to feed or fetch."),
        (["out:7"], [], "out:7"),
        ("out", [], "list"),
    ],
)
def test_what_is_fed_and_fetched_must_exist(fetches: Any, feeds: Any, message: str) -> None:
    with pytest.raises(GraphError) as refused:
        rewrite_graph_def(plain(), fetches, feeds=feeds, policy=CPU)
    assert message in str(refused.value)
