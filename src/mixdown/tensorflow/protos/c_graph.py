"""A TensorFlow graph that is imported from protos without a Python object for every node: `CGraph`.

`tf.import_graph_def` takes ten times as long, and cannot connect new nodes to nodes that are in the graph already.
"""

from collections.abc import Collection, Iterable
from typing import Any

import tensorflow as tf

from mixdown.tensorflow.protos.wiring import source
from mixdown.tensorflow.runtime.private import c_api, c_api_util


class CGraph:
    """A graph that can be run and extended by protos, but not by Python code that adds ops."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        self.operations: dict[str, Any] = {}  # by name, as TensorFlow's C interface represents them

    def add(self, graph_def: Any) -> None:
        """Add nodes and functions; inputs may name nodes that were added before. If TensorFlow refuses, nothing is."""
        scoped = c_api_util.ScopedTFImportGraphDefOptions()
        c_api.TF_ImportGraphDefOptionsSetPrefix(scoped.options, "")
        c_api.TF_ImportGraphDefOptionsSetUniquifyNames(scoped.options, False)  # noqa: FBT003 - TensorFlow's signature
        c_api.TF_ImportGraphDefOptionsSetValidateColocationConstraints(scoped.options, False)  # noqa: FBT003 - the same
        if self.operations:
            self._link(scoped.options, graph_def.node)
        self._import(scoped.options, graph_def)
        self._note_operations()

    def holds(self, names: Collection[str]) -> bool:
        """Whether nodes of these names were added, even if an interrupt came before `add` could return."""
        self._note_operations()
        return self.operations.keys() >= set(names)

    def _note_operations(self) -> None:
        # TensorFlow returns all operations without a Python object, which none of them has.
        for operation in self.graph.new_operations()[len(self.operations) :]:
            self.operations[c_api.TF_OperationName(operation)] = operation

    def tensor(self, node: str, port: int) -> Any:
        """An output, as TensorFlow's C interface represents it."""
        return c_api_util.tf_output(self.operations[node], port)

    def _link(self, options: Any, nodes: Iterable[Any]) -> None:
        """Map the inputs that name nodes of this graph to these nodes."""
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
