"""The `fused` prices put plans in the order in which XLA's GPU compiler puts them."""

from __future__ import annotations

import os

import keras
import pytest
import tensorflow as tf
from benchmarks.xla_gpu.models import MODELS, signature, training_step

from mixdown import Policy, rewrite_graph_def
from mixdown.core import Paint, Plan

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

COMPILED = {
    "MLP": (983.3, 846.8, 794.2),
    "two towers": (252.0, 267.6, 218.7),
    "transformer": (8057.1, 4814.9, 4179.9),
    "GPT": (2028.1, 1255.5, 1134.0),
    "BERT": (1595.1, 1202.9, 952.6),
    "U-Net": (5097.0, 2888.6, 2682.6),
    "Inception": (5827.4, 3365.5, 3000.1),
    "diffusion": (3729.6, 2743.1, 2160.0),
    "MobileNet": (6323.5, 3273.1, 3263.8),
    "ResNet50": (24556.6, 15039.2, 13191.0),
}
"""What `make bench-gpu` prints for float16 on the A100, in MB: float32, TensorFlow's own colouring, mixdown."""

CLEAR = 0.05
"""Plans whose bytes differ by less than this share are not told apart."""


def plans(name: str) -> tuple[Plan, Plan]:
    """TensorFlow's and our plan of one compiled training step."""
    keras.utils.clear_session()
    model = MODELS[name].build()
    compiled = tf.function(training_step(model, MODELS[name], 1024.0), autograph=False, jit_compile=True)
    specs = signature(model, MODELS[name])
    graph = tf.function(compiled, autograph=False, input_signature=specs).get_concrete_function().graph
    feeds, fetches = [tensor.name for tensor in graph.inputs], [tensor.name for tensor in graph.outputs]
    graph_def = graph.as_graph_def(add_shapes=True)
    theirs = Policy(rules="tf-2.21", strategy="grappler", devices="all")
    made = [
        rewrite_graph_def(graph_def, fetches, feeds=feeds, policy=policy).plan
        for policy in (theirs, Policy(devices="all"))
    ]
    return made[0], made[1]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("ResNet50", "diffusion"))) for name in COMPILED]
)
def test_the_fused_model_puts_our_plan_where_the_compiler_does(name: str) -> None:
    theirs, ours = plans(name)
    prices = ours.view.prices
    assert len(theirs.paints) == len(ours.paints)
    mine = prices.traffic(ours.paints).total
    for other, megabytes in zip(([Paint.FULL] * len(ours.paints), theirs.paints), COMPILED[name], strict=False):
        if COMPILED[name][2] < (1 - CLEAR) * megabytes:
            assert mine < prices.traffic(other).total
