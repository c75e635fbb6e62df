"""The `fused` prices put plans in the order in which XLA's GPU compiler puts them."""

from __future__ import annotations

import os

import keras
import pytest
import tensorflow as tf
from benchmarks.xla_gpu.models import MODELS, signature, training_step

from mixdown import Policy, rewrite_graph_def
from mixdown.core import Paint, Plan, make_plan

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

COMPILED = {
    "MLP": (983.3, 846.8, 794.2),
    "two towers": (252.0, 216.9, 218.7),
    "transformer": (8057.1, 4814.9, 4179.9),
    "GPT": (2028.1, 1247.3, 1134.0),
    "BERT": (1595.1, 1196.1, 952.6),
    "U-Net": (5097.0, 2888.6, 2569.4),
    "Inception": (5827.4, 3290.0, 2870.4),
    "diffusion": (3729.6, 2743.1, 2081.4),
    "MobileNet": (6323.5, 3273.1, 3072.9),
    "ResNet50": (24556.6, 15039.2, 12504.0),
}
"""What `make bench-gpu` prints for float16 on the A100, in MB: float32, TensorFlow's own colouring, mixdown."""

CLEAR = 0.05
"""Plans whose bytes differ by less than this share are not told apart."""


def plans(name: str) -> tuple[Plan, Plan]:
    """TensorFlow's and our plan of one compiled training step, with the variances that ours computes in one pass."""
    keras.utils.clear_session()
    model = MODELS[name].build()
    compiled = tf.function(training_step(model, MODELS[name], 1024.0), autograph=False, jit_compile=True)
    specs = signature(model, MODELS[name])
    graph = tf.function(compiled, autograph=False, input_signature=specs).get_concrete_function().graph
    feeds, fetches = [tensor.name for tensor in graph.inputs], [tensor.name for tensor in graph.outputs]
    graph_def = graph.as_graph_def(add_shapes=True)
    ours = rewrite_graph_def(graph_def, fetches, feeds=feeds, policy=Policy(devices="all")).plan
    return make_plan(ours.graph, Policy(rules="tf-2.21", strategy="grappler", devices="all")), ours


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("ResNet50", "diffusion"))) for name in COMPILED]
)
def test_the_fused_model_puts_our_plan_where_the_compiler_does(name: str) -> None:
    theirs, ours = plans(name)
    prices = ours.view.prices
    mine = prices.traffic(ours.paints).total
    for other, megabytes in zip(([Paint.FULL] * len(ours.paints), theirs.paints), COMPILED[name], strict=False):
        if COMPILED[name][2] < (1 - CLEAR) * megabytes:
            assert mine < prices.traffic(other).total
