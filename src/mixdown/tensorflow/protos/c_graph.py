"""A TensorFlow graph that is filled from protos in one go, without a Python object for every node.

`tf.import_graph_def` takes ten times as long, and cannot let a new node wait for, or stand beside, one that is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mixdown.tensorflow.protos.wiring import source
from mixdown.tensorflow.runtime.private import c_api, c_api_util

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class CGraph:
    """A graph to run, but not to build on."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        self.operations: dict[str, Any] = {}  # by name, as TensorFlow's C interface knows them

    def add(self, graph_def: Any) -> None:
        """Add nodes and functions; inputs may name nodes that are there already.

        Raises:
            tf.errors.InvalidArgumentError: a name is taken, or an input does not exist. Then nothing was added.
        """
        scoped = c_api_util.ScopedTFImportGraphDefOptions()
        c_api.TF_ImportGraphDefOptionsSetPrefix(scoped.options, "")
        c_api.TF_ImportGraphDefOptionsSetUniquifyNames(scoped.options, False)  # noqa: FBT003 - TensorFlow's signature
        c_api.TF_ImportGraphDefOptionsSetValidateColocationConstraints(scoped.options, False)  # noqa: FBT003 - the same
        if self.operations:
            self._link(scoped.options, graph_def.node)
        self._import(scoped.options, graph_def)
        self._note_operations()

    def holds(self, names: Collection[str]) -> bool:
        """Whether nodes of these names were added, though an interrupt may have kept `add` from saying so."""
        self._note_operations()
        return self.operations.keys() >= set(names)

    def _note_operations(self) -> None:
        # None of them has a Python object, so TensorFlow calls all of them new.
        for operation in self.graph.new_operations()[len(self.operations) :]:
            self.operations[c_api.TF_OperationName(operation)] = operation

    def tensor(self, node: str, port: int) -> Any:
        """An output, as TensorFlow's C interface knows it."""
        return c_api_util.tf_output(self.operations[node], port)

    def _link(self, options: Any, nodes: Iterable[Any]) -> None:
        """Say which inputs are nodes that are there already."""
        inputs = {source(text) for node in nodes for text in node.input}
        for name, port in sorted((name, -1 if port is None else port) for name, port in inputs):
            if name not in self.operations:
                continue
            if port < 0:
                c_api.TF_ImportGraphDefOptionsRemapControlDependency(options, name, self.operations[name])
            else:
                c_api.TF_ImportGraphDefOptionsAddInputMapping(options, name, port, self.tensor(name, port))

    def _import(self, options: Any, graph_def: Any) -> None:
        buffer = c_api.TF_NewBufferFromString(graph_def.SerializeToString())
        try:
            with self.graph._c_graph.get() as c_graph:
                results = c_api.TF_GraphImportGraphDefWithResults(c_graph, buffer, options)
                c_api_util.ScopedTFImportGraphDefResults(results)  # frees them
        finally:
            c_api.TF_DeleteBuffer(buffer)
