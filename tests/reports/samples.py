"""Reports for the page tests, free of any framework. Start with `sample`."""

from __future__ import annotations

from dataclasses import replace

from tests.goldens.language import parse

from mixdown.core import Plan, Policy, make_plan
from mixdown.core.pricing import Predicted
from mixdown.reports import Report
from mixdown.reports.build import graph_report
from mixdown.reports.model import Advice, GraphReport, OpRow, ScalerReport, SiteRow, Skip

STEP = """
    encoder__query__MatMul = MatMul(x, wq)
    encoder__query__BiasAdd = BiasAdd(encoder__query__MatMul, bq)
    encoder__attention__Exp = Exp(encoder__query__BiasAdd)
    encoder__attention__Tanh = Tanh(encoder__attention__Exp)
    encoder__attention__Relu = Relu(encoder__attention__Tanh)
    encoder__out__Sigmoid = Sigmoid(encoder__attention__Relu)
    encoder__out__Lgamma = Lgamma(encoder__out__Sigmoid)
    encoder__out__MatMul = MatMul(encoder__out__Sigmoid, wo)
    norm__Fused = FusedBatchNormV3(encoder__out__MatMul, U:scale)
    norm__Relu = Relu(norm__Fused)
    head__MatMul = MatMul(norm__Relu, wh)
    loss__Mean = Mean(head__MatMul)
    loss__moments = Tanh(norm__Fused.U)
"""
BYTES = (600, 0, 6_000_000, 48, 1200, None, 90_000)
FLOPS = 2_000_000
"""Of each of the three matrix products."""

TIMELINE = ((0, 65536.0), (3, 32768.0), (4, 16384.0), (24, 32768.0), (31, 16384.0))
SKIPS = (
    Skip(2, (("dense/kernel", "Inf"), ("dense/bias", "NaN"))),
    Skip(3, (("dense/kernel", "Inf and NaN"),)),
    Skip(30, ()),
)


def plan(policy: Policy | None = None) -> Plan:
    """A training step with chains of several causes, and an op of two sites."""
    graph, plain = parse(STEP.splitlines())
    ops = tuple(op._replace(name=op.name.replace("__", "/")) for op in graph.ops)
    tensors = tuple(each._replace(name=each.name.replace("__", "/")) for each in graph.tensors)
    work = [FLOPS if op.kind == "MatMul" else 0 for op in ops]
    return make_plan(replace(graph, ops=ops, tensors=tensors, work=work), policy or plain)


def step_graph(policy: Policy | None = None) -> GraphReport:
    """The graph of `plan`, its casts with bytes that are easy to tell apart."""
    graph = graph_report(plan(policy), "train_step", "function")
    sizes = (BYTES * len(graph.casts))[: len(graph.casts)]
    casts = tuple(replace(cast, bytes=size) for cast, size in zip(graph.casts, sizes, strict=True))
    effort = replace(graph.effort, predicted=(Predicted("for A100 (a guess)", 0.004, 0.002),))
    return replace(
        graph,
        casts=casts,
        effort=effort,
        advice=(Advice("encoder/query", "output size", 1001, 1000, ("encoder/query/MatMul",)),),
    )


def sample(policy: Policy | None = None) -> Report:
    """A report with something in every part."""
    alone = GraphReport("serve", "function", "float16", rewritten=False, reason="it runs on a TPU")
    return Report(
        "a training run",
        versions={"mixdown": "1.2.3", "tensorflow": "2.21.0"},
        graphs=(step_graph(policy), alone),
        scalers=(ScalerReport("adam", 16384.0, 40, 3, TIMELINE, SKIPS),),
        warnings=("The optimizer was wrapped twice.",),
        notes=("This is a sample.",),
    )


def many(ops: int) -> Report:
    """A report of so many ops, in blocks of ten."""
    site = SiteRow("T", "float16", "allow", "seed", "MatMul is on the allow list")
    rows = [
        OpRow(
            f"model/block_{index // 10}/dense_{index % 10}/MatMul", "MatMul", "", (site,), (index - 1,) if index else ()
        )
        for index in range(ops)
    ]
    return Report("large", graphs=(GraphReport("large", "graph", "float16", True, "", ops=tuple(rows)),))  # noqa: FBT003 - GraphReport names it
