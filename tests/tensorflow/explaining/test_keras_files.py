"""`explain` and `convert` on the files that Keras saves, of both libraries, trained with a wrapped optimizer or not."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import mixdown
from mixdown import cli
from mixdown.tensorflow.runtime.keras_files import loaded

LIBRARIES = {"keras": keras, "tf_keras": tf_keras}
FILES = [(library, ending) for library in LIBRARIES for ending in (".keras", ".h5")]
X, Y = np.ones((8, 4), np.float32), np.ones((8, 2), np.float32)


def network(library: Any) -> Any:
    layers = library.layers
    return library.Sequential([layers.Input((4,)), layers.Dense(64, activation="relu"), layers.Dense(2)])


def saved(name: str, ending: str, folder: Path) -> Path:
    library = LIBRARIES[name]
    model = network(library)
    model.compile(mixdown.LossScaleOptimizer(library.optimizers.Adam()), library.losses.MeanSquaredError())
    model.fit(X, Y, verbose=0)
    path = folder / f"model{ending}"
    model.save(path)
    return path


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize(("library", "ending"), FILES)
def test_a_saved_model_is_explained_as_the_model_itself(library: str, ending: str, tmp_path: Path) -> None:
    path = saved(library, ending, tmp_path)
    by_path = mixdown.explain(str(path)).graphs[0]
    by_model = mixdown.explain(LIBRARIES[library].models.load_model(path, compile=False)).graphs[0]
    assert isinstance(loaded(path), LIBRARIES[library].Model)
    assert by_path.name.startswith("the forward pass of sequential")
    assert [op.kind for op in by_path.low_ops] == [op.kind for op in by_model.low_ops]
    assert {op.kind for op in by_path.low_ops} >= {"MatMul"}


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize(("library", "ending"), FILES)
def test_a_saved_model_is_converted_to_a_saved_model_that_computes_the_same(
    library: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(library, ending, tmp_path)
    done = mixdown.convert_saved_model(path, tmp_path / "converted")
    assert capsys.readouterr().out == ""
    assert {op.kind for graph in done.report.graphs for op in graph.low_ops} >= {"MatMul"}
    served = tf.saved_model.load(str(done.path)).signatures["serving_default"](tf.constant(X))
    expected = LIBRARIES[library].models.load_model(path, compile=False)(X)
    np.testing.assert_allclose(next(iter(served.values())), expected, rtol=0.01, atol=0.01)


def test_a_training_step_of_a_saved_model_has_its_optimizer(tmp_path: Path) -> None:
    report = mixdown.explain(saved("keras", ".keras", tmp_path), X, Y)
    assert report.graphs[0].name.startswith("a training step of sequential")
    assert any(op.kind == "Sqrt" for op in report.graphs[0].ops)  # of Adam


def test_the_command_line_takes_keras_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(saved("keras", ".keras", tmp_path))
    assert cli.main(["explain", path]) == 0
    assert "What mixed precision does to the forward pass of sequential" in capsys.readouterr().out
    assert cli.main(["convert", path, str(tmp_path / "served")]) == 0
    assert (tmp_path / "served" / "saved_model.pb").is_file()


@keras.saving.register_keras_serializable(package="tests")
class Doubled(keras.layers.Layer):
    def call(self, inputs: Any) -> Any:
        return 2 * inputs


def test_what_keras_cannot_load_is_named_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "own.keras"
    keras.Sequential([keras.layers.Input((4,)), Doubled()]).save(path)
    known = keras.saving.get_custom_objects()
    kept = known.pop("tests>Doubled")
    try:
        with pytest.raises(
            mixdown.GraphError, match=r"^keras cannot load '.*own.keras': .*Doubled.* load it yourself, "
        ):
            mixdown.explain(path)
    finally:
        known["tests>Doubled"] = kept


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "code.keras"
    keras.Sequential([keras.layers.Input((4,)), keras.layers.Lambda(lambda x: x + 1)]).save(path)
    with pytest.raises(mixdown.GraphError, match=r"keras cannot load .*code.keras"):
        mixdown.convert_saved_model(path, tmp_path / "converted")
    assert not (tmp_path / "converted").exists()


def test_a_keras_file_has_no_signatures(tmp_path: Path) -> None:
    with pytest.raises(mixdown.GraphError, match="is no SavedModel, so it has no signatures"):
        mixdown.explain(saved("keras", ".keras", tmp_path), signatures=["serving_default"])


def test_keras_on_another_backend_has_no_tensorflow_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved("keras", ".keras", tmp_path)
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(mixdown.GraphError, match=r"Keras runs on jax here, so '.*model.keras' has no TensorFlow graph"):
        mixdown.explain(path)
