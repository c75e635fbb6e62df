"""Where TensorFlow's pass changes what it must not: its fault is shown, then that ours does not have it."""

import pytest
import tensorflow as tf
from benchmarks.oracle import theirs
from tests.parity.chains import SHAPE, ChainBuilder
from tests.parity.laws import imported, same_interface
from tests.parity.policies import LOWS, like_tensorflow

from mixdown import rewrite_graph_def

GPU = "/device:GPU:0"


@pytest.mark.parametrize("low", LOWS)
def test_a_fetched_cast_keeps_its_dtype(low: str) -> None:
    builder = ChainBuilder()
    flags = builder.node("Placeholder", dtype=tf.bool, shape=SHAPE)
    cast = builder.node("Cast", [flags], DstT=tf.float32)
    fetches = (f"{cast}:0", *builder.fetch(builder.chain("A", cast)))
    ours = rewrite_graph_def(builder.graph_def, fetches, policy=like_tensorflow(low)).graph_def
    assert not same_interface(builder.graph_def, theirs(builder.graph_def, fetches, low), fetches)
    assert same_interface(builder.graph_def, ours, fetches)


@pytest.mark.parametrize("low", LOWS)
def test_a_cast_on_another_device_keeps_its_types(low: str) -> None:
    builder = ChainBuilder()
    flags = builder.node("Placeholder", dtype=tf.bool, shape=SHAPE)
    cast = builder.node("Cast", [flags], DstT=tf.float32)
    fetches = builder.fetch(builder.chain("A", cast))
    assert becomes_low(builder, fetches, low, cast) == (False, True)


@pytest.mark.parametrize("low", LOWS)
def test_a_next_iteration_on_another_device_keeps_its_types_and_its_merge_follows(low: str) -> None:
    builder = ChainBuilder()
    fetches = builder.fetch(builder.chain("A", builder.loop("C", builder.chain("A", builder.source()))))
    assert becomes_low(builder, fetches, low, "loop/value") == (False, True)


def becomes_low(builder: ChainBuilder, fetches: tuple[str, ...], low: str, name: str) -> tuple[bool, bool]:
    """Put a node on a GPU, which the policy does not admit: whether it is low in our rewrite, and in theirs."""
    node = next(node for node in builder.graph_def.node if node.name == name)
    node.device = GPU
    ours = rewrite_graph_def(builder.graph_def, fetches, policy=like_tensorflow(low)).graph_def
    operations = [
        imported(graph_def).get_operation_by_name(name) for graph_def in (ours, theirs(builder.graph_def, fetches, low))
    ]
    ours_low, theirs_low = (operation.outputs[0].dtype == tf.as_dtype(low) for operation in operations)
    return ours_low, theirs_low
