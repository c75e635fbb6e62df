"""The reasons a plan gives: one row a sentence, and no sentence that is not true."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from tests.core.strategies import graphs, policies
from tests.goldens.language import parse

from mixdown.core import Graph, Plan, Policy, make_plan


def plan_of(text: str) -> Plan:
    return make_plan(*parse(text.splitlines()))


LOOP = """
    d = Exp(x)
    one = Merge(d, next)
    two = Merge(y, next)
    i = Tanh(one)
    r = Relu(two)
    a = MatMul(two, w)
    next = NextIteration(a)
    unanimous one two follow next
"""
LIST = """
    h = Relu(x)
    p = TensorListPushBack(h)
    q = TensorListPopBack()
    a = MatMul(q, w)
    b = MatMul(y, w)
    v = TensorListPushBack(b)
    spread p q
    spread v: its tensor list is also handled by `z`
"""
CALL = """
    a = MatMul(x, w)
    call = PartitionedCall(a)
    arg = _Arg()
    d = Exp(arg)
    conduit call arg
    flow call -> arg
    unanimous call arg
"""
CHAIN = """
    a = MatMul(x, w)
    t = Tanh(a)
    b = MatMul(t, w)
    d = Exp(b)
    c = Relu(d)
    s = Sigmoid(c)
    e = Elu(s)
    u = Lgamma(e)
    n = Neg(u)
    i = Erf(u)
    g = GRUBlockCell(u)
    f = MatMul(u, w)
    k = BatchMatMulV3(u, w)
    p = AvgPool3D(a)
    z = MatMul(p, w)
    v = Identity(w2)
    m = MatMul(v, w)
    j = Cast()
    o = MatMul(j, w)
    illegal g
    kernelless k p
    frozen f: it is fetched
    reads_variable v
    conversion j
"""
SENTENCES: list[tuple[str, str, list[str]]] = [
    (CHAIN, "a", ["a (MatMul) is float16: MatMul is on the allow list"]),
    (
        CHAIN,
        "t",
        [
            "t (Tanh) is float16: it lies between float16 ops, `a` and `b`",
            "  a (MatMul) is float16: MatMul is on the allow list",
            "  b (MatMul) is float16: MatMul is on the allow list",
        ],
    ),
    (CHAIN, "d", ["d (Exp) is float32: Exp is on the deny list"]),
    (
        CHAIN,
        "s",
        [
            "s (Sigmoid) is float32: it follows a denied op, through `c`",
            "  c (Relu) is float32: it follows a denied op, through `d`",
            "  d (Exp) is float32: Exp is on the deny list",
        ],
    ),
    (CHAIN, "u", ["u (Lgamma) is float32: Lgamma is on no list"]),
    (CHAIN, "n", ["n (Neg) is float32: none of its neighbours is float16"]),
    (
        CHAIN,
        "i",
        ["i (Erf) is float32: it is not between two float16 ops, so converting it would only add casts"],
    ),
    (CHAIN, "g", ["g (GRUBlockCell) is float32: GRUBlockCell is not defined for float16 here"]),
    (CHAIN, "f", ["f (MatMul) is float32: it is fetched"]),
    (CHAIN, "k", ["k (BatchMatMulV3) is float32: its device has no kernel for the 16-bit dtype"]),
    (CHAIN, "p", ["p (AvgPool3D) is float32: AvgPool3D has no float16 kernel on its device"]),
    (CHAIN, "v", ["v (Identity) is float32: it reads a variable, which stays float32"]),
    (
        CHAIN,
        "j",
        [
            "j (Cast) is float16: it is a cast of your program, and all ops that read it, such as `o`, are float16",
            "  o (MatMul) is float16: MatMul is on the allow list",
        ],
    ),
    (
        LIST,
        "p",
        [
            "p (TensorListPushBack) is float16: it shares a tensor list with `q`",
            "  q (TensorListPopBack) is float16: TensorListPopBack only moves values, and its neighbour `a` is float16",
            "  a (MatMul) is float16: MatMul is on the allow list",
        ],
    ),
    (LIST, "v", ["v (TensorListPushBack) is float32: its tensor list is also handled by `z`"]),
    (
        LOOP,
        "next",
        [
            "next (NextIteration) is float32: it carries the same value as `one`",
            "  one (Merge) is float32: it follows a denied op, through `d`",
            "  d (Exp) is float32: Exp is on the deny list",
        ],
    ),
    (
        CALL,
        "arg",
        [
            "arg (_Arg) is float16: it carries a value into or out of a function, and `a` is float16",
            "  a (MatMul) is float16: MatMul is on the allow list",
        ],
    ),
    (
        "policy rules=tf-2.21\na = MatMul(x, w)\nt = Tanh(a)",
        "t",
        [
            "t (Tanh) is float16: it directly follows `a`, which is float16",
            "  a (MatMul) is float16: MatMul is on the allow list",
        ],
    ),
    ("a = MatMul(x, w)\nillegal a", "a", ["a (MatMul) is float32: MatMul is not defined for float16 here"]),
    (
        "policy low=bfloat16\nb = FusedBatchNormV3(a, U:s)\na = MatMul(x, w)\nc = MatMul(b, w)\nillegal b.U",
        "b",
        [
            "b.T (FusedBatchNormV3) is bfloat16: it lies between bfloat16 ops, `a` and `c`",
            "  a (MatMul) is bfloat16: MatMul is on the allow list",
            "  c (MatMul) is bfloat16: MatMul is on the allow list",
            "b.U (FusedBatchNormV3) is float32: FusedBatchNormV3 is not defined for bfloat16 here",
        ],
    ),
]


@pytest.mark.parametrize(("graph", "op", "lines"), SENTENCES, ids=[f"{op}-{lines[0]}" for _, op, lines in SENTENCES])
def test_why_gives_the_chain_of_causes(graph: str, op: str, lines: list[str]) -> None:
    assert plan_of(graph).why(op).splitlines() == lines


def test_why_of_an_op_that_is_not_there() -> None:
    with pytest.raises(KeyError, match=r"No op named 'nobody' has a float32 port in this graph\."):
        plan_of("a = MatMul(x, w)").why("nobody")


@settings(deadline=None)
@given(graphs(), policies())
def test_reasons_name_only_ops_that_exist(graph: Graph, policy: Policy) -> None:
    plan = make_plan(graph, policy)
    labels = {graph.label(site) for site in range(len(graph.sites))}
    for op in graph.ops:
        text = plan.why(op.name)
        assert set(re.findall("`(.*?)`", text)) <= labels
        assert {line.strip().partition(" (")[0] for line in text.splitlines()} <= labels


UNTRUE = [
    pytest.param(LOOP, "r", "neighbour `two` is float16", id="a cause that went full"),
    pytest.param(LIST, "h", "none of its neighbours is float16", id="a neighbour that went low late"),
    pytest.param(
        CALL.replace("MatMul(x, w)", "Relu(x)") + "\n    m = MatMul(arg, w)",
        "arg",
        "none of its neighbours is float16",
        id="a call not all readers of which are low",
    ),
    pytest.param(
        "a = MatMul(x, w)\nu = Lgamma(a)\nt = Tanh(u)\nb = MatMul(t, w)",
        "t",
        "no allow op is both before and after it",
        id="an allow op behind a barrier",
    ),
    pytest.param("deny name=^r$\nr = Relu(x)", "r", "Relu is on the deny list", id="denied by name"),
    pytest.param("keep name=^t$\nt = Tanh(x)", "t", "Tanh is on no list", id="kept by name"),
    pytest.param(
        "policy level=treat_infer_as_deny\nt = Tanh(x)", "t", "Tanh is on the deny list", id="denied by level"
    ),
    pytest.param("policy level=tensor_cores_only\nt = Tanh(x)", "t", "Tanh is on no list", id="left out by level"),
    pytest.param(
        "e = EmptyTensorList()\np = TensorListPushBack(a)\na = MatMul(x, w)\nspread e p\nkernelless e",
        "e",
        "also used by an op that must keep its types",
        id="the culprit of a list",
    ),
    pytest.param(
        "c = Cast()\na = MatMul(c, w)\nd = Exp(c)\nconversion c", "c", "Cast is on no list", id="a cast for both"
    ),
    pytest.param(
        "a = MatMul(x, w)\nb = MatMul(y, w)\nunanimous a b: it is exported",
        "a",
        "it carries the same value as `a`",
        id="a frozen tie",
    ),
]


@pytest.mark.parametrize(("graph", "op", "untrue"), UNTRUE)
def test_why_does_not_say_what_is_not_so(graph: str, op: str, untrue: str) -> None:
    assert untrue not in plan_of(graph).why(op)
