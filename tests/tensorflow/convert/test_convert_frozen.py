"""Frozen graphs: GraphDefs in files, converted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown import cli

rng = np.random.default_rng(2)
KERNEL = (rng.normal(size=[256, 256]) / 16).astype("float32")
X = rng.normal(size=[4, 256]).astype("float32")


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 256], "x")
        hidden = tf.identity(tf.nn.relu(x @ tf.identity(tf.constant(KERNEL))), "hidden")
        tf.nn.softmax(hidden @ tf.constant(KERNEL), name="y")
    (tmp_path / "frozen.pb").write_bytes(graph.as_graph_def().SerializeToString())
    return tmp_path / "frozen.pb"


def run(path: Path, *names: str) -> list[Any]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(path.read_bytes()), name="")
        return session.run([f"{name}:0" for name in names], {"x:0": X})


@pytest.mark.parametrize("weights", ["float32", "low"])
def test_outputs_keep_name_and_type(frozen: Path, weights: Any) -> None:
    done = mixdown.convert_saved_model(frozen, frozen.with_name("low.pb"), weights=weights)
    (wanted,), (got,) = run(frozen, "y"), run(done.path, "y")
    assert got.dtype == np.float32
    assert np.abs(got - wanted).max() <= 2**-6 * wanted.max()
    assert not np.array_equal(got, wanted)


def test_low_constants_halve_the_file_and_change_no_bit(frozen: Path) -> None:
    low = mixdown.convert_saved_model(frozen, frozen.with_name("low.pb"), weights="low")
    full = mixdown.convert_saved_model(frozen, frozen.with_name("full.pb"))
    assert low.low_constants == 2
    assert low.path.stat().st_size / frozen.stat().st_size < 0.55
    np.testing.assert_array_equal(run(low.path, "y")[0], run(full.path, "y")[0])


def test_an_output_may_be_computed_in_16_bits_behind_a_cast(frozen: Path, tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 256], "x")
        tf.matmul(x, tf.constant(KERNEL), name="y")
    frozen.write_bytes(graph.as_graph_def().SerializeToString())
    done = mixdown.convert_saved_model(frozen, tmp_path / "low.pb", weights="low")
    (wanted,), (got,) = run(frozen, "y"), run(done.path, "y")
    assert got.dtype == np.float32
    assert np.abs(got - wanted).max() <= 2**-6 * np.abs(wanted).max()
    np.testing.assert_array_equal(got, got.astype("float16"))
    assert done.low_constants == 1


def test_named_outputs_keep_their_type(frozen: Path) -> None:
    low = mixdown.convert_saved_model(frozen, frozen.with_name("low.pb"))
    kept = mixdown.convert_saved_model(frozen, frozen.with_name("kept.pb"), outputs=["hidden"])
    assert [run(done.path, "hidden")[0].dtype for done in (low, kept)] == [np.float16, np.float32]


def test_report_is_beside_it(frozen: Path) -> None:
    done = mixdown.convert_saved_model(frozen, frozen.with_name("low.pb"))
    assert done.page == frozen.with_name("low.pb.mixdown-report.html")
    assert done.page.is_file()
    assert done.page.with_suffix(".json").is_file()
    assert sorted(path.name for path in frozen.parent.iterdir()) == [
        "frozen.pb",
        "low.pb",
        "low.pb.mixdown-report.html",
        "low.pb.mixdown-report.json",
    ]


def test_command_line_converts(frozen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = frozen.with_name("low.pb")
    options = ["--weights", "low", "--low", "bfloat16", "--overwrite"]
    assert cli.main(["convert", *options, str(frozen), str(target), "--outputs", "hidden"]) == 0
    printed = capsys.readouterr().out
    assert "2 constants are stored in 16 bits" in printed
    assert f"Report: {target}.mixdown-report.html" in printed
    assert cli.main(["convert", str(frozen), str(target)]) == 2
    assert "exists already" in capsys.readouterr().err


def noise(frozen: Path) -> dict[str, Any]:
    frozen.write_bytes(b"noise")
    return {}


def empty(frozen: Path) -> dict[str, Any]:
    frozen.write_bytes(b"")
    return {}


REFUSALS: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "noise": (noise, "holds no GraphDef"),
    "empty": (empty, "has no nodes. A saved_model.pb is converted by its folder"),
    "io": (lambda _: {"io": "low"}, "io='low' is for SavedModels"),
    "unknown output": (lambda _: {"outputs": ["z"]}, "has no node 'z' that could be an output"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal_names_the_culprit_and_leaves_nothing(case: str, frozen: Path) -> None:
    change, message = REFUSALS[case]
    with pytest.raises(mixdown.MixdownError, match=message):
        mixdown.convert_saved_model(frozen, frozen.with_name("low.pb"), **change(frozen))
    assert [path.name for path in frozen.parent.iterdir()] == ["frozen.pb"]
