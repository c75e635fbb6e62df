"""What the tests of sessions share: sessions under a policy, and what TensorFlow executed, node by node."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

# Private: the class of all sessions. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.client.session import BaseSession
from tests import fresh

from mixdown.core import Policy
from mixdown.tensorflow.sessions import hook

if TYPE_CHECKING:
    from collections.abc import Iterator

v1 = tf.compat.v1
POLICY = Policy(devices="all")
LOW, FULL = types_pb2.DT_HALF, types_pb2.DT_FLOAT
TOO_LARGE = 300.0  # its square is finite in float32 and infinite in float16


@contextmanager
def enabled(policy: Policy = POLICY) -> Iterator[None]:
    """Sessions made inside run a twin."""
    hook.install(lambda: policy)
    try:
        yield
    finally:
        hook.uninstall()


def close_sessions() -> None:
    """Close every session there is: other tests in this process may have left some open."""
    gc.unfreeze()  # or the collector does not tell of what earlier modules left
    for thing in gc.get_objects():
        if issubclass(type(thing), BaseSession) and not getattr(thing, "_closed", True):
            thing.close()
    gc.freeze()


def plainly(*, mixed: bool = True) -> Any:
    """A configuration without TensorFlow's own rewriting, so that what is executed has the names of the graph.

    Args:
        mixed: False turns mixed precision off for the session.
    """
    config = v1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    if not mixed:
        config.graph_options.rewrite_options.auto_mixed_precision = RewriterConfig.OFF
    return config


class Trace:
    """A run of a session: the values, and the nodes that were executed."""

    def __init__(self, session: Any, fetches: Any, feeds: Any = None) -> None:
        metadata, options = v1.RunMetadata(), v1.RunOptions(output_partition_graphs=True)
        self.values = session.run(fetches, feeds, options=options, run_metadata=metadata)
        self.nodes = {node.name: node for graph in metadata.partition_graphs for node in graph.node}
        self.functions = [f for graph in metadata.partition_graphs for f in graph.library.function]

    def types(self, kind: str) -> dict[str, int]:
        """Every executed node of a kind, with its dtype `T`; on some CPUs oneDNN puts ops of its own in their place."""
        kinds = (kind, f"_Mkl{kind}")
        return {name: node.attr["T"].type for name, node in self.nodes.items() if node.op in kinds}

    def low(self, *kinds: str) -> None:
        """Assert that nodes of these kinds were executed, each of them low."""
        for kind in kinds:
            assert set(self.types(kind).values()) == {LOW}, (kind, self.types(kind))

    def full(self, *kinds: str) -> None:
        """Assert that nodes of these kinds were executed, each of them full."""
        for kind in kinds:
            assert set(self.types(kind).values()) == {FULL}, (kind, self.types(kind))


def twin_graph(session: Any) -> Any:
    """The graph that a session really runs, as a graph of its own."""
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(session._mixdown_twin.graph.as_graph_def(), name="")
    return graph


def assert_same_surface(session: Any) -> None:
    """Every node that the user made is in the twin, with its name, its outputs and their dtypes."""
    twin = twin_graph(session)
    for operation in session.graph.get_operations():
        found = twin.get_operation_by_name(operation.name)
        assert [t.dtype for t in found.outputs] == [t.dtype for t in operation.outputs], operation.name


def square(name: str = "square", value: float = TOO_LARGE) -> Any:
    """A matrix product that is finite in float32 only."""
    large = tf.constant([[value]], name=f"{name}_operand")
    return tf.matmul(large, large, name=name)


def float16_nodes(graph_def: Any) -> list[str]:
    """The nodes of a graph or its functions that mention float16."""
    nodes = [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]
    return [node.name for node in nodes if any(value.type == LOW for value in node.attr.values())]


def in_a_process_of_its_own(*arguments: str, **environment: str) -> str:
    """What Python prints when it is run with these arguments."""
    python = [sys.executable] if environment else fresh.python()  # TensorFlow reads variables when it is imported
    done = subprocess.run(  # noqa: S603 - the tests' own scripts
        [*python, *arguments],
        cwd=Path(__file__).parents[3],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
