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
    "MLP": {"A100": (983.3, 846.8, 796.7), "H100": (983.3, 846.8, 796.7)},
    "conv+BN": {"A100": (2635.7, 1348.5, 1348.5), "H100": (2584.2, 1477.0, 1451.3)},
    "transformer": {"A100": (8057.1, 4814.9, 4254.4), "H100": (8056.8, 4822.9, 4262.4)},
    "ResNet50": {"A100": (24556.6, 15039.2, 13416.3), "H100": (24673.0, 15373.1, 13210.7)},
}
"""What `make bench-gpu` prints, in MB: float32, TensorFlow's own colouring, mixdown."""


def plans(name: str) -> tuple[Plan, Plan]:
    """TensorFlow's and our plan of one compiled training step."""
    keras.utils.clear_session()
    model = MODELS[name].build()
    compiled = tf.function(training_step(model, 1024.0), autograph=False, jit_compile=True)
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


@pytest.mark.parametrize("name", [*list(MODELS)[:3], pytest.param("ResNet50", marks=pytest.mark.slow)])
def test_the_fused_model_ranks_plans_as_the_compiler_does(name: str) -> None:
    theirs, ours = plans(name)
    prices = ours.view.prices
    costs = [prices.traffic(paints).total for paints in ([Paint.FULL] * len(ours.paints), theirs.paints, ours.paints)]
    assert len(theirs.paints) == len(ours.paints)
    for device, megabytes in COMPILED[name].items():
        for one in range(3):
            for other in range(3):
                if megabytes[one] < megabytes[other]:
                    assert costs[one] < costs[other], (device, costs)
