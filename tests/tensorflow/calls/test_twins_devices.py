"""Which devices take part: the gates of a machine without a suitable one, and ops pinned to devices that do not."""

import os
import subprocess
import warnings
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests import fresh
from tests.tensorflow.calls.twins_probe import ON_CPU, bits, compared, executed

import mixdown
from mixdown.core import make_plan
from mixdown.tensorflow.calls import twins
from mixdown.tensorflow.machine.gates import closed_gate
from mixdown.tensorflow.protos.bodies import function_body
from mixdown.tensorflow.reading.read import read

ROOT = Path(__file__).parents[3]
LARGE = tf.constant([[300.0]])
Fake = namedtuple("Fake", ["name", "device_type"])  # noqa: PYI024 - like TensorFlow's PhysicalDevice


@pytest.fixture
def square() -> Any:
    return tf.function(lambda x: tf.matmul(x, x))


@pytest.mark.parametrize(
    "policy", [mixdown.Policy(), mixdown.Policy(devices=("GPU",)), mixdown.Policy(devices=("TPU",))]
)
def test_a_machine_without_an_eligible_device_runs_untouched_and_says_so_once(policy: Any, square: Any) -> None:
    before = square(LARGE)
    with pytest.warns(mixdown.MixdownWarning) as caught, mixdown.rewriting(policy):
        ran = executed(lambda: [square(LARGE), tf.function(lambda x: tf.matmul(x, x) + 1.0)(LARGE)])
    (warning,) = caught
    text = str(warning.message)
    assert f"there is no {policy.devices[0]}" in text
    assert "Everything runs in float32" in text
    assert "devices=('GPU', 'CPU')" in text
    assert bits(ran.value[0]) == bits(before)
    assert not ran.has_low
    assert all("float16" not in name for name in ran.functions)


def test_the_way_out_that_the_warning_shows_works(square: Any) -> None:
    with warnings.catch_warnings(), mixdown.rewriting(mixdown.Policy(low="float16", devices=("GPU", "CPU"))):
        warnings.simplefilter("error")
        assert np.isinf(square(LARGE)).all()


@pytest.mark.parametrize(
    ("capabilities", "reason"),
    [
        ([(7, 0)], None),
        ([(9, 0)], None),
        ([(6, 1), (8, 0)], None),  # one of two is enough
        ([None], None),  # a GPU that does not tell is taken to be new
        ([(6, 0)], "the GPU has compute capability 6.0, and float16 is fast from 7.0 on"),
        ([(5, 2), (6, 1)], "the GPU has compute capability 5.2, 6.1, and float16 is fast from 7.0 on"),
        ([], "there is no GPU"),
    ],
)
def test_gpus_take_part_from_compute_capability_7_on(
    capabilities: Any, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = [Fake(f"/physical_device:GPU:{index}", "GPU") for index in range(len(capabilities))]
    details = dict(zip(gpus, capabilities, strict=True))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: gpus if kind == "GPU" else [])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"compute_capability": details[gpu]})
    assert closed_gate(mixdown.Policy()) == reason


def test_ops_pinned_to_a_device_that_takes_no_part_stay_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with a GPU: what names no device runs there, and what is pinned to the CPU does not."""

    @tf.function
    def function(x: Any) -> Any:
        free = tf.matmul(x, x, name="free")
        with tf.device("/CPU:0"):
            pinned = tf.matmul(x, x, name="pinned")
        return free, pinned

    monkeypatch.setattr(twins, "machine_default", lambda: "GPU")
    with scoped(mixdown.Policy(devices=("GPU",))):
        free, pinned = function(LARGE)
    assert np.isinf(free).all()
    assert pinned.numpy().item() == 90_000.0


def test_a_function_called_on_a_device_that_takes_no_part_stays_full(square: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(twins, "machine_default", lambda: "GPU")
    with scoped(mixdown.Policy(devices=("GPU",))):
        assert np.isinf(square(LARGE)).all()
        with tf.device("/CPU:0"):
            assert square(LARGE).numpy().item() == 90_000.0
        assert np.isinf(square(LARGE)).all()


def scoped(policy: mixdown.Policy) -> Any:
    """A block whose policy counts although this machine has none of its devices."""
    from mixdown.tensorflow import install  # noqa: PLC0415 - needed here only
    from mixdown.tensorflow.calls import active_policy  # noqa: PLC0415 - needed here only

    install.install()
    return active_policy.scope(policy)


def test_a_function_that_is_called_inside_another_on_a_pinned_device_stays_full(monkeypatch: Any, square: Any) -> None:
    """TensorFlow lets the ops of a called function that name no device run where the call runs."""

    @tf.function
    def function(x: Any) -> Any:
        with tf.device("/CPU:0"):
            return square(x)

    monkeypatch.setattr(twins, "machine_default", lambda: "GPU")
    with scoped(mixdown.Policy(devices=("GPU",))):
        assert function(LARGE).numpy().item() == 90_000.0


def test_twins_keep_the_devices_of_their_ops() -> None:
    """In a process of its own, because logical devices come before everything else."""
    script = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tensorflow.python.eager import context
import mixdown

@tf.function
def function(x):
    with tf.device("/CPU:0"):
        y = tf.matmul(x, x, name="first")
    with tf.device("/CPU:1"):
        return tf.matmul(y, x, name="second")

with mixdown.rewriting(mixdown.Policy(devices="all")), context.collect_graphs() as graphs:
    function(tf.ones((2, 2)))
nodes = [node for graph in graphs for node in graph.node if node.op == "MatMul"]
print(sorted((node.name, node.device[-5:], node.attr["T"].type) for node in nodes))
"""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    ran = subprocess.run(  # noqa: S603 - our own script
        [*fresh.python(), "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[('first', 'CPU:0', 19), ('second', 'CPU:1', 19)]"


def test_an_op_without_a_kernel_on_its_device_stays_full() -> None:
    """LSTMBlockCell has no bfloat16 kernel on the CPU; the product after it has one."""
    zeros, kernel = tf.zeros((1, 2)), tf.ones((4, 8))

    @tf.function
    def function(x: Any) -> Any:
        cell = tf.raw_ops.LSTMBlockCell(
            x=x, cs_prev=zeros, h_prev=zeros, w=kernel, wci=zeros[0], wcf=zeros[0], wco=zeros[0], b=tf.zeros((8,))
        )
        return tf.matmul(cell.h, tf.ones((2, 2)))

    ran = compared(lambda: function(tf.ones((1, 2))), mixdown.Policy(low="bfloat16", devices="all"))
    assert ran.all_full("LSTMBlockCell")
    assert ran.all_low("MatMul", low="bfloat16")


def test_every_low_op_of_a_plan_is_on_an_admitted_device(square: Any) -> None:
    concrete = square.get_concrete_function(LARGE)
    body = function_body(concrete.function_def)
    for default, low in (("GPU", True), ("CPU", False), ("TPU", False)):
        reading = read(body, {}, mixdown.Policy(devices=("GPU",)), default_device=default)
        assert make_plan(reading.graph, mixdown.Policy(devices=("GPU",))).changes_anything is low
    assert make_plan(read(body, {}, ON_CPU).graph, ON_CPU).changes_anything
