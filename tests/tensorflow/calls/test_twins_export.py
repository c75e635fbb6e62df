"""What leaves the process is the float32 original: saved models, frozen graphs, traces. And tf.data is left alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tests.tensorflow.calls.twins_probe import ON_CPU, executed

import mixdown

HALF = tf.float16.as_datatype_enum
LARGE = np.array([[300.0]], "float32")
WIDE = np.array([[300.0, 300.0]], "float32")


class Model(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable([[300.0, 0.0], [0.0, 300.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x")])
    def __call__(self, x: Any) -> Any:
        return {
            "product": tf.while_loop(lambda i, _: i < 1, lambda i, a: (i + 1, tf.matmul(a, self.weight)), (0, x))[1]
        }


@pytest.fixture
def used() -> Any:
    """A model that has run mixed, inside the block in which it did."""
    model = Model()
    with mixdown.rewriting(ON_CPU):
        assert np.isinf(model(WIDE)["product"]).all()
        yield model


def half_nodes(graph_def: Any) -> list[str]:
    """Every node of a graph and its functions that has a 16-bit dtype anywhere."""
    nodes = [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]
    return [node.name for node in nodes if any(HALF in (v.type, *v.list.type) for v in node.attr.values())]


def test_a_saved_model_is_float32_with_its_signatures_intact(used: Any, tmp_path: Path) -> None:
    tf.saved_model.save(used, tmp_path, signatures=used.__call__)
    stored = saved_model_pb2.SavedModel.FromString((tmp_path / "saved_model.pb").read_bytes()).meta_graphs[0]
    assert half_nodes(stored.graph_def) == []
    assert "float16" not in str(stored.graph_def)
    signature = stored.signature_def["serving_default"]
    assert {key: value.dtype for key, value in signature.inputs.items()} == {"x": tf.float32.as_datatype_enum}
    assert {key: value.dtype for key, value in signature.outputs.items()} == {"product": tf.float32.as_datatype_enum}
    assert np.isinf(tf.saved_model.load(tmp_path)(WIDE)["product"]).all()  # loaded inside the block, it is mixed


def test_a_saved_model_computes_in_float32_outside(tmp_path: Path) -> None:
    model = Model()
    with mixdown.rewriting(ON_CPU):
        model(WIDE)
        tf.saved_model.save(model, tmp_path)
    assert (tf.saved_model.load(tmp_path)(WIDE)["product"].numpy() == 90_000.0).all()


def test_a_concrete_function_shows_its_float32_graph(used: Any) -> None:
    concrete = used.__call__.get_concrete_function()
    assert half_nodes(concrete.graph.as_graph_def(add_shapes=True)) == []
    assert "float16" not in str(concrete.function_def)


def test_a_frozen_graph_is_float32(used: Any) -> None:
    frozen = convert_variables_to_constants_v2(used.__call__.get_concrete_function())
    assert half_nodes(frozen.graph.as_graph_def()) == []


def test_a_checkpoint_holds_float32(used: Any, tmp_path: Path) -> None:
    path = tf.train.Checkpoint(model=used).write(str(tmp_path / "checkpoint"))
    reader = tf.train.load_checkpoint(path)
    assert reader.get_variable_to_dtype_map()["model/weight/.ATTRIBUTES/VARIABLE_VALUE"] == tf.float32


def square(x: Any) -> Any:
    return tf.matmul(x, x)


def test_the_functions_of_a_dataset_are_left_alone() -> None:
    with mixdown.rewriting(ON_CPU):
        data = tf.data.Dataset.from_tensors(LARGE).map(square).repeat(2)
        assert [element.item() for element in data.as_numpy_iterator()] == [90_000.0] * 2


def test_the_functions_of_a_dataset_made_inside_a_function_are_left_alone() -> None:
    @tf.function
    def function(x: Any) -> Any:
        data = tf.data.Dataset.from_tensors(x).map(square).map(lambda y: tf.map_fn(square, y[None])[0] / 300.0)
        return tf.matmul(next(iter(data)) / 300.0, x), data.reduce(tf.constant([[0.0]]), tf.add)

    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: function(LARGE))
    product, total = (value.numpy().item() for value in ran.value)
    assert np.isinf(product)  # the function's own product
    assert np.isfinite(total)  # those of the dataset, which work on 90,000 and more
