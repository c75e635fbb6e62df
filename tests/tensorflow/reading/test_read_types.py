"""Ports and their types: lists, repeats, fixed types, statistics, casts that are there, variables, names asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.graph_kit import (
    BFLOAT16,
    CPU,
    EYE,
    ONES,
    casts,
    checked,
    find,
    graph_of,
    low_nodes,
    matmul,
    out,
    raw,
    run,
    types_of,
    v1,
    x,
)

from mixdown import rewrite_graph_def

BIG = 300 * EYE  # 300 * 300 is beyond float16
IMAGE = np.linspace(-1, 1, 2 * 4 * 4 * 3, dtype=np.float32).reshape(2, 4, 4, 3)


@pytest.mark.parametrize("policy", [CPU, BFLOAT16], ids=lambda policy: policy.low)
def test_a_matmul_really_runs_in_16_bits(policy: Any) -> None:
    graph_def = graph_of(lambda: out(matmul(x(), x("y"), "m")))
    result = checked(graph_def, {"x": ONES, "y": EYE}, policy=policy)
    assert result.run.low() == {"m"}
    big = run(result.graph_def, ["out"], {"x": BIG, "y": BIG}).values[0][0, 0]
    assert big == np.inf if policy is CPU else big in (89600, 90112)  # the bfloat16 numbers around 90000


def test_elements_of_a_list_attribute_are_sites_of_their_own() -> None:
    def build() -> None:
        a, b, c = raw.IdentityN(input=[matmul(x(), x("y"), "m"), tf.exp(x("z")), tf.constant(3)], name="n")
        out(matmul(a, tf.sigmoid(b), "last"))
        out(c, "count")

    result = checked(graph_of(build), {"x": ONES, "y": EYE, "z": ONES}, ["out", "count"])
    assert result.types("n")["T"] == ["float16", "float32", "int32"]
    assert result.run.low() == {"m", "n", "last"}


def test_repeated_ports_share_one_site() -> None:
    def build() -> None:
        parts = [matmul(x(), x("y"), f"m{index}") for index in range(3)]
        out(matmul(raw.AddN(inputs=[*parts, x("z")], name="sum"), x("y"), "last"))

    result = checked(graph_of(build), {"x": ONES, "y": EYE, "z": ONES})
    assert result.run.low() == {"m0", "m1", "m2", "sum", "last"}
    assert [node.input[0] for node in casts(result.graph_def) if node.name.startswith("z/")] == ["z"]


def test_an_op_with_a_fixed_output_type_keeps_it() -> None:
    def build() -> None:
        image = raw.Conv2D(
            input=x(shape=(2, 4, 4, 3)), filter=x("f", (1, 1, 3, 3)), strides=[1] * 4, padding="SAME", name="a"
        )
        bigger = raw.ResizeBilinear(images=image, size=[8, 8], name="resize")
        out(raw.Conv2D(input=bigger, filter=x("f2", (1, 1, 3, 3)), strides=[1] * 4, padding="SAME", name="b"))

    kernel = np.eye(3, dtype=np.float32)[None, None]
    policy = CPU.with_clear("ResizeBilinear")  # its images may be low, what it gives may not
    result = checked(graph_of(build), {"x": IMAGE, "f": kernel, "f2": kernel}, policy=policy)
    assert result.types("resize") == {"T": "float16"}
    assert result.run.dtypes["resize"] == {"float32"}
    assert "ResizeBilinear is not defined for float16 here" in result.plan.why("resize")


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_upgraded_and_keeps_its_statistics_in_float32(*, training: bool) -> None:
    conv = {"strides": [1] * 4, "padding": "SAME"}

    def build() -> None:
        a = raw.Conv2D(input=x(shape=(2, 4, 4, 3)), filter=x("f", (1, 1, 3, 3)), name="a", **conv)
        statistics = [
            x(name, (3,) if name in ("scale", "offset") or not training else (0,))
            for name in ("scale", "offset", "mean", "variance")
        ]
        y, mean, variance, one, two = raw.FusedBatchNorm(
            x=a,
            scale=statistics[0],
            offset=statistics[1],
            mean=statistics[2],
            variance=statistics[3],
            is_training=training,
            name="norm",
        )
        b = raw.Conv2D(input=y, filter=x("f2", (1, 1, 3, 3)), name="b", **conv)
        out(b)
        out(mean, "mean_out")
        out(variance, "variance_out")
        if training:
            grad, scale_grad, *_ = raw.FusedBatchNormGrad(
                y_backprop=b, x=a, scale=statistics[0], reserve_space_1=one, reserve_space_2=two, name="norm_grad"
            )
            out(raw.Conv2D(input=grad, filter=x("f3", (1, 1, 3, 3)), name="c", **conv), "grad_out")
            out(scale_grad, "scale_grad_out")

    kernel = np.eye(3, dtype=np.float32)[None, None]
    moments = np.zeros(0 if training else 3, np.float32)
    feeds = {"x": IMAGE, "f": kernel, "f2": kernel, "scale": np.ones(3, np.float32), "offset": np.zeros(3, np.float32)}
    feeds |= {"mean": moments, "variance": moments + 1}
    fetches = ["out", "mean_out", "variance_out"]
    if training:
        feeds["f3"] = kernel
        fetches += ["grad_out", "scale_grad_out"]
    result = checked(graph_of(build), feeds, fetches, tolerance=3e-2)
    assert find(result.graph_def, "norm").op == "FusedBatchNormV2"
    assert result.types("norm") == {"T": "float16", "U": "float32"}
    if training:
        assert find(result.graph_def, "norm_grad").op == "FusedBatchNormGradV2"
        assert result.types("norm_grad") == {"T": "float16", "U": "float32"}


def test_a_batch_norm_that_stays_full_keeps_its_name() -> None:
    def build() -> None:
        ones, none = tf.ones(3), tf.zeros(0)
        y, *_ = raw.FusedBatchNorm(
            x=tf.exp(x(shape=(2, 4, 4, 3))), scale=ones, offset=ones, mean=none, variance=none, name="norm"
        )
        out(matmul(tf.reshape(y, [32, 3]), tf.eye(3), "m"))

    result = checked(graph_of(build), {"x": IMAGE})
    assert find(result.graph_def, "norm").op == "FusedBatchNorm"


def test_an_existing_cast_yields_the_low_type_at_once_if_all_consumers_want_it() -> None:
    def build() -> None:
        mask = tf.cast(x("mask") > 0, tf.float32, name="all")
        out(matmul(mask, x(), "m"))
        some = tf.cast(x("mask") > 0, tf.float32, name="some")
        out(matmul(some, x(), "n") + tf.exp(some), "out2")

    result = checked(graph_of(build), {"x": ONES, "mask": EYE}, ["out", "out2"])
    assert result.types("all") == {"SrcT": "bool", "DstT": "float16"}
    assert result.types("some") == {"SrcT": "bool", "DstT": "float32"}
    assert sorted(node.input[0] for node in casts(result.graph_def)) == ["Greater", "Greater_1", "m", "n", "some", "x"]


def test_what_is_already_in_16_bits_or_in_64_is_left_alone() -> None:
    def build() -> None:
        half = raw.MatMul(a=v1.placeholder(tf.float16, [2, 2], "h"), b=tf.eye(2, dtype=tf.float16), name="half")
        wide = raw.MatMul(a=v1.placeholder(tf.float64, [2, 2], "d"), b=tf.eye(2, dtype=tf.float64), name="wide")
        out(half)
        out(wide, "out2")

    graph_def = graph_of(build)
    assert rewrite_graph_def(graph_def, ["out", "out2"], policy=CPU).graph_def == graph_def


def test_what_is_fed_fetched_or_marked_keeps_its_type() -> None:
    def build() -> None:
        fed = tf.identity(x(), name="fed")
        fetched = matmul(fed, x("y"), "fetched")
        middle = matmul(fetched, x("y"), "middle")
        marked = matmul(middle, x("y"), "marked")
        marked.op._set_attr("_grappler_do_not_remove", tf.compat.v1.AttrValue(b=True))
        out(matmul(marked, x("y"), "last"))

    result = checked(graph_of(build), {"fed": ONES, "y": EYE}, ["fetched", "out"])
    assert low_nodes(result.graph_def) == {"middle", "last"}
    assert "fetched" in result.plan.why("fetched")
    assert "_grappler_do_not_remove" in result.plan.why("marked")


def test_a_tensor_is_cast_once_for_all_its_readers() -> None:
    def build() -> None:
        a = x()
        squares = [matmul(a, a, "one"), matmul(a, x("y"), "two")]
        out(matmul(squares[0], squares[1], "last") + a)

    result = checked(graph_of(build), {"x": ONES, "y": EYE})
    assert sorted(node.input[0] for node in casts(result.graph_def)) == ["last", "x", "y"]


def test_reference_variables_stay_full_and_can_be_assigned() -> None:
    def build() -> None:
        variable = raw.VariableV2(shape=[2, 2], dtype=tf.float32, name="v")
        raw.Assign(ref=variable, value=tf.eye(2), name="init")
        read = raw.Identity(input=variable, name="read")
        product = matmul(x(), read, "m")
        out(matmul(raw.Identity(input=product, name="plain"), variable, "direct"))

    result = checked(graph_of(build), {"x": ONES}, init="init")
    assert low_nodes(result.graph_def) == {"m", "plain", "direct"}
    assert "it reads a variable" in result.plan.why("read")


def test_resource_variables_are_cast_behind_their_reads() -> None:
    def build() -> None:
        handle = raw.VarHandleOp(dtype=tf.float32, shape=[2, 2], container="", shared_name="v", name="v")
        raw.AssignVariableOp(resource=handle, value=tf.eye(2), name="init")
        read = raw.ReadVariableOp(resource=handle, dtype=tf.float32, name="read")
        out(matmul(x(), raw.Identity(input=read, name="copy"), "m"))

    result = checked(graph_of(build), {"x": ONES}, init="init")
    assert low_nodes(result.graph_def) == {"m", "copy"}
    assert types_of(find(result.graph_def, "read")) == {"dtype": "float32"}


def test_quantized_ops_are_left_alone() -> None:
    def build() -> None:
        q, low, high = raw.QuantizeV2(input=x(), min_range=-1.0, max_range=1.0, T=tf.quint8, name="quantize")
        back = raw.Dequantize(input=q, min_range=low, max_range=high, dtype=tf.float32, name="back")
        out(matmul(back, x("y"), "m"))

    policy = BFLOAT16.with_clear("Dequantize", "QuantizeV2")  # TensorFlow itself would let it put out bfloat16
    result = checked(graph_of(build), {"x": ONES, "y": EYE}, policy=policy)
    assert low_nodes(result.graph_def) == {"m"}


def test_ops_on_references_are_left_alone_even_if_a_policy_lists_them() -> None:
    def build() -> None:
        variable = raw.VariableV2(shape=[2, 2], dtype=tf.float32, name="v")
        product = matmul(x(), tf.eye(2), "m")
        raw.Assign(ref=variable, value=product, name="init")
        out(matmul(raw.AssignAdd(ref=variable, value=product, name="add"), tf.eye(2), "n"))

    policy = CPU.with_clear("VariableV2", "Assign", "AssignAdd")
    rewritten = rewrite_graph_def(graph_of(build), ["out", "init"], feeds=["x"], policy=policy).graph_def
    assert low_nodes(rewritten) == {"m", "n"}
