"""One graph, one plan: whatever the order of the nodes, the hash seed or the run."""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from benchmarks import corpus
from hypothesis import given, settings
from tests.parity.policies import LOWS, RULES, everywhere
from tests.parity.recipes import Recipe, cook, recipes, repeatable

from mixdown import rewrite_graph_def

ROOT = Path(__file__).resolve().parents[2]
# TensorFlow 2.21's rules look at infer ops once, in node order, so only they depend on it.
ORDERLESS_RULES = ("documented", "tf-2.19")
PRINT_FINGERPRINTS = "from tests.parity.test_determinism import fingerprints; print(fingerprints())"


def fingerprints() -> list[str]:
    """Rewrite graphs that have loops, lists and batch norms; one line each."""
    return [
        hashlib.sha256(rewritten.SerializeToString(deterministic=True)).hexdigest()
        for sample in map(corpus.load, ["lstm_tiny", "unet_tiny_k2"])
        for rules in RULES
        for rewritten in [
            rewrite_graph_def(sample.graph_def, sample.fetches, policy=everywhere("float16", rules)).graph_def
        ]
    ]


def shuffled(graph_def: Any, seed: int) -> Any:
    nodes = list(graph_def.node)
    random.Random(seed).shuffle(nodes)  # noqa: S311 - reproducible, not secret
    return tf.compat.v1.GraphDef(node=nodes, versions=graph_def.versions, library=graph_def.library)


def by_name(graph_def: Any) -> dict[str, bytes]:
    return {node.name: node.SerializeToString(deterministic=True) for node in graph_def.node}


@pytest.mark.parametrize("rules", ORDERLESS_RULES)
@pytest.mark.parametrize("name", ["resnet_tiny_k3", "lstm_tiny", "bert_tiny"])
def test_a_rewrite_of_shuffled_nodes_has_the_same_nodes(name: str, rules: str) -> None:
    sample, policy = corpus.load(name), everywhere("float16", rules)
    expected = by_name(rewrite_graph_def(sample.graph_def, sample.fetches, policy=policy).graph_def)
    for seed in range(3):
        graph_def = shuffled(sample.graph_def, seed)
        assert by_name(rewrite_graph_def(graph_def, sample.fetches, policy=policy).graph_def) == expected


@pytest.mark.parametrize("rules", ORDERLESS_RULES)
@pytest.mark.parametrize("low", LOWS)
@settings(repeatable, max_examples=60)
@given(recipe=recipes())
def test_a_rewrite_of_shuffled_random_nodes_has_the_same_nodes(low: str, rules: str, recipe: Recipe) -> None:
    dish, policy = cook(recipe), everywhere(low, rules)
    expected = by_name(rewrite_graph_def(dish.graph_def, dish.fetches, policy=policy).graph_def)
    graph_def = shuffled(dish.graph_def, seed=1)
    assert by_name(rewrite_graph_def(graph_def, dish.fetches, policy=policy).graph_def) == expected


def test_a_rewrite_does_not_depend_on_the_hash_seed() -> None:
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # not the one of this process
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-c", PRINT_FINGERPRINTS]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own text
    assert run.stdout.strip() == str(fingerprints())
