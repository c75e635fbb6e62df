"""What is said of hostile graphs and models: each message names the culprit."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.reliability import hostile_graphs, hostile_models

import mixdown

if TYPE_CHECKING:
    from pathlib import Path

GRAPHS = {
    "no outputs to count": "num_split=1099511627776 asks for more than 65536 inputs or outputs of one node.",
    "many large nodes": r"The graph has more than 4194304 outputs, with those of 'split\d+' \(Unpack\)\.",
    "functions in a circle": "Functions of the model call each other in a circle: f -> g -> f.",
    "a port of many digits": "There is no output 'm:9+': what follows the colon is no number.",
    "an ugly op": r"Node 'm' has the unknown op 'a\\x1b\[2J",
}
MODELS = {
    "no graphs": "The SavedModel in '.*' is broken: there is no graph in it.",
    "no objects": r"The model refers to the object 1000000, and has only \d+\.",
    "a signature of nothing": "The signature 'serving_default' speaks of 'nowhere:0', which is not in the graph.",
    "a signature of too many": "A signature speaks of 'StatefulPartitionedCall:7', and 'Stateful.*' has 1 outputs.",
    "a broken collection": "A collection of variables holds something else.",
    "index cut": "The values of the variables in '.*variables' cannot be read: .*sstable",
    "a link to a file outside": r"'.*assets/link' is a link that leads out of the model, .* without links \(cp -rL\)\.",
    "a pipe": "'.*assets/pipe' is neither a file nor a folder: a model has nothing else.",
    "extra is a file": r"'.*' cannot be written: .*assets\.extra",
}
MORE = {"a signature of too many": hostile_models.proto(hostile_models._ask_for("StatefulPartitionedCall:7"))}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_models.sound(tmp_path_factory.mktemp("sound"))


def refusal(source: Path, **options: Any) -> str:
    with pytest.raises(mixdown.MixdownError) as refused:
        mixdown.convert_saved_model(source, source.with_name("converted"), weights="low", **options)
    return str(refused.value)


@pytest.mark.parametrize("case", GRAPHS)
def test_the_message_about_a_graph_names_the_culprit(case: str, tmp_path: Path) -> None:
    source = tmp_path / "graph.pb"
    source.write_bytes(hostile_graphs.GRAPHS[case]().SerializeToString())
    assert re.search(GRAPHS[case], refusal(source))


@pytest.mark.parametrize("case", MODELS)
def test_the_message_about_a_model_names_the_culprit(case: str, sound: Path, tmp_path: Path) -> None:
    source = tmp_path / "model"
    shutil.copytree(sound, source)
    (hostile_models.MODELS | MORE)[case](source)
    assert re.search(MODELS[case], refusal(source, io="low"))


FILES = {
    "deep.pbtxt": (hostile_graphs.text_nested(5000), "does not hold a GraphDef: it nests too deeply."),
    "noise.pb": (b"\xff" * 100, "does not hold a GraphDef: "),
    "latin.pbtxt": (b"node \xe9", "does not hold a GraphDef: 'utf-8' codec"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_message_about_a_file_names_it(name: str, tmp_path: Path) -> None:
    content, message = FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(mixdown.GraphError) as refused:
        mixdown.explain(tmp_path / name)
    assert f"{name}' {message}" in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "graph.pb"
    path.write_bytes(b"")

    def forbidden(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", forbidden)
    with pytest.raises(mixdown.GraphError, match=r"graph\.pb' cannot be read: Permission denied\."):
        mixdown.explain(path)


def test_a_constant_that_holds_too_little_is_named(tmp_path: Path) -> None:
    graph_def = hostile_graphs.plain()
    made = hostile_graphs.constant(graph_def, "short", [[1.0] * 4] * 4, hostile_graphs.FLOAT)
    made.attr["value"].tensor.tensor_content = b"\0" * 8
    hostile_graphs.node(graph_def, "product", "MatMul", "m", "short", T=hostile_graphs.FLOAT)
    (tmp_path / "graph.pb").write_bytes(graph_def.SerializeToString())
    assert refusal(tmp_path / "graph.pb") == "The constant 'short' does not hold 16 values of float32."
