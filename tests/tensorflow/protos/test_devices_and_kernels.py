"""Where a node runs, and whether a 16-bit kernel waits for it there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.graph_kit import CPU, EYE, ONES, casts, checked, find, graph_of, low_nodes, matmul, out, raw, x

from mixdown import Policy, rewrite_graph_def, rewriting
from mixdown.tensorflow.machine.devices import default_type, device_type
from mixdown.tensorflow.protos.kernels import has_kernels_for

GPU = Policy(devices=("GPU",))
FEEDS = {"x": ONES, "y": EYE}
CUBE = np.ones((1, 2, 2, 2, 1), np.float32)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("", ""),
        ("/job:worker/replica:0/task:3", ""),
        ("/job:localhost/replica:0/task:0/device:GPU:0", "GPU"),
        ("/device:CPU:*", "CPU"),
        ("/gpu:1", "GPU"),
        ("/job:w/task:1/cpu:0", "CPU"),
        ("/job:gpu/task:0/device:CPU:0", "CPU"),
        ("/job:gpu/task:0", ""),
        ("/device:XLA_GPU:0", "XLA_GPU"),
        ("/device:TPU_SYSTEM:0", "TPU_SYSTEM"),
    ],
)
def test_the_type_of_device_in_a_device_string(device: str, expected: str) -> None:
    assert device_type(device) == expected


@pytest.mark.parametrize(("devices", "expected"), [("gpu", "GPU"), (("CPU", "GPU"), "CPU"), ("all", "CPU")])
def test_a_node_without_a_device_is_where_the_policy_looks_first(devices: Any, expected: str) -> None:
    assert default_type(Policy(devices=devices)) == expected


def placed(**devices: str) -> Any:
    """Two products, a and b, on devices."""
    graph_def = graph_of(lambda: out(matmul(tf.nn.relu(matmul(x(), x("y"), "a"), name="r"), x("y"), "b")))
    for name, device in devices.items():
        find(graph_def, name).device = device
    return graph_def


@pytest.mark.parametrize(
    ("policy", "devices", "low"),
    [
        (GPU, {}, {"a", "r", "b"}),
        (GPU, {"a": "/device:CPU:0"}, {"r", "b"}),
        (GPU, {"b": "/job:worker/task:0/cpu:0"}, {"a", "r"}),
        (GPU, {"a": "/device:GPU:1", "b": "/cpu:0"}, {"a", "r"}),
        (CPU, {"a": "/device:GPU:0"}, {"r", "b"}),
        (CPU, {"a": "/device:CPU:0"}, {"a", "r", "b"}),
        (Policy(devices=("CPU", "GPU")), {"a": "/device:GPU:0"}, {"a", "r", "b"}),
        (Policy(devices="all"), {"a": "/device:GPU:0", "b": "/device:CPU:0"}, {"a", "r", "b"}),
        (Policy(devices="gpu"), dict.fromkeys(("a", "r", "b", "out"), "/device:CPU:0"), set()),
    ],
)
def test_only_ops_on_admitted_devices_are_low(policy: Policy, devices: dict[str, str], low: set[str]) -> None:
    assert low_nodes(rewrite_graph_def(placed(**devices), ["out"], policy=policy).graph_def) == low


def test_why_names_the_device() -> None:
    plan = rewrite_graph_def(placed(a="/cpu:0"), ["out"], policy=GPU).plan
    assert plan.why("a") == "a (MatMul) is float32: it runs on a CPU, which the policy leaves alone"


def test_a_cast_stands_where_its_value_is_made() -> None:
    devices = {"x": "/device:CPU:0", "a": "/device:GPU:0"}
    rewritten = rewrite_graph_def(placed(**devices), ["out"], policy=GPU).graph_def
    assert {node.input[0]: node.device for node in casts(rewritten)} == {"x": "/device:CPU:0", "y": "", "b": ""}


def test_a_pinned_graph_runs_as_pinned() -> None:
    result = checked(placed(a="/device:CPU:0"), FEEDS, policy=Policy(devices=("CPU",)))
    assert result.run.low() == {"a", "r", "b"}


def test_an_unknown_type_of_device_is_judged_by_the_kernels_of_the_cpu() -> None:
    assert not has_kernels_for("TPU")
    graph_def = placed(**dict.fromkeys(("a", "r", "b", "out"), "/device:TPU:0"))
    rewritten = rewrite_graph_def(graph_def, ["out"], policy=Policy(devices=("TPU",))).graph_def
    assert low_nodes(rewritten) == {"a", "r", "b"}


def batched() -> Any:
    cube = raw.BatchMatMulV3(x=x("c", (2, 2, 2)), y=x("c", (2, 2, 2)), Tout=tf.float32, name="batched")
    out(matmul(tf.reshape(cube, [4, 2]), x("y"), "last"))


def pooled() -> Any:
    first = raw.Conv3D(
        input=x("v", (1, 2, 2, 2, 1)), filter=tf.ones([1, 1, 1, 1, 1]), strides=[1] * 5, padding="SAME", name="first"
    )
    pool = raw.AvgPool3D(input=first, ksize=[1, 2, 2, 2, 1], strides=[1] * 5, padding="SAME", name="pool")
    out(raw.Conv3D(input=pool, filter=tf.ones([1, 1, 1, 1, 1]), strides=[1] * 5, padding="SAME", name="last"))


def gated() -> Any:
    inputs = {"x": matmul(x(), x("y"), "first"), "h_prev": x("h"), "w_ru": tf.ones([4, 4]), "w_c": tf.ones([4, 2])}
    *_, state = raw.GRUBlockCell(**inputs, b_ru=tf.zeros([4]), b_c=tf.zeros([2]), name="gru")
    out(matmul(state, x("y"), "last"))


MISSING = [
    (
        batched,
        {"c": np.ones((2, 2, 2), np.float32), "y": EYE},
        "batched",
        {"last"},
        "its device has no kernel for the 16-bit dtype",
    ),
    (pooled, {"v": CUBE}, "pool", {"first", "last"}, "AvgPool3D has no float16 kernel on its device"),
    (gated, {"x": ONES, "y": EYE, "h": ONES}, "gru", {"first", "last"}, "GRUBlockCell is not defined for float16 here"),
]


@pytest.mark.parametrize(
    ("build", "feeds", "name", "low", "why"), MISSING, ids=["BatchMatMulV3", "AvgPool3D", "GRUBlockCell"]
)
def test_an_op_without_a_kernel_for_it_stays_full_and_says_so(
    build: Any, feeds: Any, name: str, low: set[str], why: str
) -> None:
    result = checked(graph_of(build), feeds)
    assert result.types(name) == dict.fromkeys(result.types(name), "float32")
    assert low <= result.run.low()
    assert why in result.plan.why(name)


def test_the_same_op_is_low_where_there_is_a_kernel() -> None:
    graph_def = graph_of(batched)
    rewritten = rewrite_graph_def(graph_def, ["out"], policy=GPU)
    types = rewritten.graph_def.node
    batched_node = next(node for node in types if node.name == "batched")
    assert has_kernels_for("GPU")
    assert {batched_node.attr[name].type for name in ("Ta", "Tb", "Tout")} == {tf.float16.as_datatype_enum}


def test_sites_that_only_have_a_kernel_together_go_low_together() -> None:
    def build() -> None:
        product = raw.BatchMatMulV3(x=x("c", (2, 2, 2)), y=x("c", (2, 2, 2)), Tout=tf.float32, name="batched")
        out(product)

    policy = GPU.with_deny("BatchMatMulV3", attribute="Tb")
    rewritten = rewrite_graph_def(graph_of(build), ["out"], policy=policy).graph_def
    assert low_nodes(rewritten) == set()


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
def test_the_gradient_of_a_compiled_pool_has_one_dtype_although_xla_registers_each(low: str) -> None:
    levels = np.random.default_rng(0).permuted(np.tile(np.arange(8) / 4, (2, 2, 2, 2, 8, 1)), axis=-1)  # per window
    windows = levels.reshape(2, 2, 2, 2, 8, 2, 2, 2).transpose(0, 1, 5, 2, 6, 3, 7, 4)
    image = windows.reshape(2, 4, 4, 4, 8).astype(np.float32)
    filters = np.eye(8, dtype=np.float32).reshape(1, 1, 1, 8, 8)

    @tf.function(jit_compile=True, autograph=False)
    def step(image: Any, filters: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(filters)
            made = tf.nn.conv3d(image, filters, [1] * 5, "SAME")
            pooled = tf.nn.max_pool3d(tf.exp(-tf.abs(made)), 2, 2, "VALID")  # behind a denied op
            loss = tf.reduce_mean(pooled @ tf.ones((8, 8)))
        return tape.gradient(loss, filters)

    with rewriting(Policy(low=low, devices="all")):
        mixed = step(image, filters)
    np.testing.assert_allclose(mixed, step(image, filters), rtol=0.02)
