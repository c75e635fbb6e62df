"""Ten converted SavedModels, reloaded in a process that has no mixdown."""

import os
import pickle
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tests import fresh
from tests.tensorflow.convert.convert_models import MODELS, Inputs, run

import mixdown

ROOT = Path(__file__).parents[3]
EPSILON = 2.0**-10  # of float16


class Case(NamedTuple):
    original: Path
    converted: Path
    inputs: Inputs


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    out = {}
    for name, build in MODELS.items():
        home = tmp_path_factory.mktemp("model")
        case = Case(home / "original", home / "converted", build(home / "original"))
        (home / "inputs.pickle").write_bytes(pickle.dumps(case.inputs))
        mixdown.convert_saved_model(case.original, case.converted)
        out[name] = case
    return out


@pytest.fixture(scope="module")
def reloaded(cases: dict[str, Case]) -> dict[str, dict[str, Any]]:
    """What every converted model gives in a plain process."""
    folders = [str(case.converted) for case in cases.values()]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [*fresh.python(), "-W", "ignore", "-m", "tests.tensorflow.convert.convert_reload", *folders]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    assert done.returncode == 0, done.stderr[-3000:]
    return {
        name: pickle.loads((case.converted.parent / "outputs.pickle").read_bytes())  # noqa: S301 - our own file
        for name, case in cases.items()
    }


def meta_graph(folder: Path) -> Any:
    return saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0]


def declared(folder: Path) -> dict[str, Any]:
    return {
        name: [{key: info.dtype for key, info in side.items()} for side in (signature.inputs, signature.outputs)]
        for name, signature in meta_graph(folder).signature_def.items()
    }


def low_nodes(folder: Path) -> Iterator[str]:
    graph_def = meta_graph(folder).graph_def
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        yield from (node.op for node in nodes if node.attr["T"].type == types_pb2.DT_HALF)


@pytest.mark.parametrize("name", MODELS)
def test_converted_model_gives_the_same_in_a_plain_process(
    name: str, cases: dict[str, Case], reloaded: dict[str, Any]
) -> None:
    wanted, got = run(cases[name].original, cases[name].inputs), reloaded[name]
    assert got.keys() == wanted.keys()
    for key, value in wanted.items():
        assert got[key].dtype == value.dtype, key
        if value.dtype == np.float32:
            error = np.abs(got[key] - value).max() / np.abs(value).max()
            assert error <= 16 * EPSILON, (key, error)
        else:
            np.testing.assert_array_equal(got[key], value, key)


@pytest.mark.parametrize("name", MODELS)
def test_converted_model_has_the_same_signatures(name: str, cases: dict[str, Case]) -> None:
    assert declared(cases[name].converted) == declared(cases[name].original)


@pytest.mark.parametrize("name", MODELS)
def test_converted_model_multiplies_in_16_bits(name: str, cases: dict[str, Case]) -> None:
    assert {"MatMul", "BatchMatMulV2", "Conv2D", "Einsum"} & set(low_nodes(cases[name].converted))
    assert not set(low_nodes(cases[name].original))


@pytest.mark.parametrize("name", MODELS)
def test_weights_and_signatures_in_16_bits_serve_too(name: str, cases: dict[str, Case], tmp_path: Path) -> None:
    case = cases[name]
    mixdown.convert_saved_model(case.original, tmp_path / "low", io="low", weights="low")
    wanted, got = run(case.original, case.inputs), run(tmp_path / "low", case.inputs)
    for key, value in wanted.items():
        if value.dtype == np.float32:
            assert got[key].dtype == np.float16, key
            assert np.abs(got[key] - value).max() / np.abs(value).max() <= 16 * EPSILON, key
        else:
            assert got[key].dtype == value.dtype, key


@pytest.mark.parametrize("name", MODELS)
def test_storing_weights_low_changes_no_bit_of_any_output(name: str, cases: dict[str, Case], tmp_path: Path) -> None:
    case = cases[name]
    done = mixdown.convert_saved_model(case.original, tmp_path / "low", weights="low")
    assert done.low_variables
    wanted, got = run(case.converted, case.inputs), run(tmp_path / "low", case.inputs)
    for key, value in wanted.items():
        np.testing.assert_array_equal(got[key], value, key)


def test_weight_heavy_model_is_half_the_size_with_its_report(tmp_path: Path) -> None:
    layers = [tf.keras.layers.Input((1024,)), tf.keras.layers.Dense(2048), tf.keras.layers.Dense(512)]
    tf.keras.Sequential(layers).export(str(tmp_path / "original"), verbose=False)
    mixdown.convert_saved_model(tmp_path / "original", tmp_path / "low", weights="low")
    before, after = (
        sum(path.stat().st_size for path in (tmp_path / name).rglob("*") if path.is_file())
        for name in ("original", "low")
    )
    assert after / before <= 0.55, after / before
