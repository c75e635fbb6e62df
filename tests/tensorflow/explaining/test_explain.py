"""`explain`: what it tells of functions, models and files, and that it runs and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown.reports.model import Advice, GraphReport, OpRow

if TYPE_CHECKING:
    from mixdown.reports import Report

keras = tf.keras
EVERYWHERE = mixdown.Policy(devices="all")
X = tf.constant([[1.0, 2.0], [3.0, 4.0]])


def op(report: Report, kind: str) -> OpRow:
    (found,) = [row for graph in report.graphs for row in graph.ops if row.kind == kind]
    return found


def dtypes(graph: GraphReport, kind: str) -> set[str]:
    return {site.dtype for row in graph.ops if row.kind == kind for site in row.sites}


@tf.function
def classify(x: Any) -> Any:
    hidden = tf.matmul(x, x)
    return tf.nn.softmax(hidden)


def test_a_function_is_explained_op_by_op() -> None:
    report = mixdown.explain(classify, X, policy=EVERYWHERE)
    product, softmax = op(report, "MatMul"), op(report, "Softmax")
    assert [(site.dtype, site.category, site.stage) for site in product.sites] == [("float16", "allow", "seed")]
    assert [(site.dtype, site.category, site.stage) for site in softmax.sites] == [("float32", "deny", "taint")]
    casts = {(cast.tensor, cast.to, cast.bytes) for cast in report.graphs[0].casts}
    assert casts == {("x:0", "float16", 4 * 6), ("MatMul:0", "float32", 4 * 6)}
    assert "is float32: Softmax is on the deny list" in report.why("Softmax")


def test_an_op_is_traced_to_the_users_line() -> None:
    report = mixdown.explain(classify, X, policy=EVERYWHERE)
    line = next(
        number for number, text in enumerate(Path(__file__).read_text("utf-8").splitlines(), 1) if "hidden = tf" in text
    )
    assert op(report, "MatMul").source == f"{__file__}:{line}, in classify"


def test_an_op_in_a_function_that_is_called_is_traced_too() -> None:
    report = mixdown.explain(tf.function(lambda x: classify(x) + 1), X, policy=EVERYWHERE)
    assert op(report, "MatMul").source.endswith(", in classify")


def test_an_op_of_a_saved_model_is_traced_if_lines_were_saved(tmp_path: Path) -> None:
    model = tf.Module()
    model.call = tf.function(lambda x: classify(x) + 1, input_signature=[tf.TensorSpec(X.shape)])
    for name, saves in {"with": True, "without": False}.items():
        options = tf.saved_model.SaveOptions(save_debug_info=saves)
        tf.saved_model.save(model, str(tmp_path / name), signatures=model.call, options=options)
        found = op(mixdown.explain(tmp_path / name, policy=EVERYWHERE), "MatMul").source
        assert found.startswith(f"{__file__}:") is saves
        assert found.endswith(", in classify") is saves


def test_an_op_of_a_keras_layer_has_no_line_of_the_users() -> None:
    report = mixdown.explain(dense(4, 8), policy=EVERYWHERE)
    assert op(report, "MatMul").source == ""


ARGUMENTS = {
    "a value": X,
    "an array": X.numpy(),
    "a spec": tf.TensorSpec([2, 2]),
}


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_values_and_specs_are_taken_alike(argument: str) -> None:
    assert dtypes(mixdown.explain(classify, ARGUMENTS[argument]).graphs[0], "MatMul") == {"float16"}


def test_structures_and_keywords_are_taken() -> None:
    function = tf.function(lambda pair, *, by: pair["a"] @ pair["b"][0] * by)
    spec = tf.TensorSpec([2, 2])
    report = mixdown.explain(function, {"a": spec, "b": [spec]}, by=2.0, policy=EVERYWHERE)
    assert dtypes(report.graphs[0], "MatMul") == {"float16"}


def test_a_concrete_function_and_a_plain_one_are_taken_too() -> None:
    concrete = classify.get_concrete_function(X)
    assert mixdown.explain(concrete).graphs[0].ops == mixdown.explain(classify, X).graphs[0].ops
    assert dtypes(mixdown.explain(lambda x: tf.matmul(x, x), X).graphs[0], "MatMul") == {"float16"}


def test_a_decorated_function_is_looked_through() -> None:
    decorated = mixdown.rewrite(EVERYWHERE)(classify)
    assert dtypes(mixdown.explain(decorated, X).graphs[0], "MatMul") == {"float16"}


def test_nothing_is_run_and_no_twin_is_made() -> None:
    from tensorflow.python.eager.context import context  # noqa: PLC0415 - private, and only for this test

    ran = tf.Variable(0)

    @tf.function
    def counted(x: Any) -> Any:
        ran.assign_add(1)
        return tf.matmul(x, x)

    concrete = counted.get_concrete_function(X)
    before = set(context().list_function_names())
    mixdown.explain(concrete, policy=EVERYWHERE)
    assert set(context().list_function_names()) == before
    assert ran.numpy() == 0


def test_without_a_policy_in_force_the_report_says_that_it_is_as_if() -> None:
    assert "as if every device took part" in mixdown.explain(classify, X).notes[0]


def test_the_policy_in_force_is_the_default() -> None:
    with mixdown.rewriting(EVERYWHERE.with_keep("MatMul")):
        report = mixdown.explain(classify, X)
    assert report.notes == ()
    assert dtypes(report.graphs[0], "MatMul") == {"float32"}
    assert "a rule of the policy" in report.why("MatMul") or "MatMul is on no list" in report.why("MatMul")


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU: the gate is open")
def test_a_policy_whose_gate_is_closed_is_told_as_a_warning() -> None:
    report = mixdown.explain(classify, X, policy=mixdown.Policy())
    assert "there is no GPU" in report.warnings[0]
    assert not report.graphs[0].rewritten


def test_a_rule_that_matches_nothing_is_noted() -> None:
    report = mixdown.explain(classify, X, policy=EVERYWHERE.with_keep(scope="nowhere"))
    assert report.notes == ("The rule scope='nowhere' of the policy matches nothing here.",)


def dense(*sizes: int) -> Any:
    layers = [keras.layers.Dense(size, use_bias=False) for size in sizes[1:]]
    return keras.Sequential([keras.layers.Input((sizes[0],)), *layers])


def test_a_misaligned_model_gets_exactly_the_advice_it_should() -> None:
    report = mixdown.explain(dense(100, 1000), tf.TensorSpec([64, 100]), policy=EVERYWHERE)
    (graph,) = report.graphs
    (advice,) = graph.advice
    layer = op(report, "MatMul").name.rpartition("/")[0]
    assert advice == Advice(layer, "input size", 100, 128, (op(report, "MatMul").name,))


def test_every_cast_has_its_bytes_where_the_shapes_are_known() -> None:
    report = mixdown.explain(dense(100, 1000), tf.TensorSpec([64, 100]), policy=EVERYWHERE)
    sizes = {cast.tensor.rpartition("/")[2]: cast.bytes for cast in report.graphs[0].casts}
    assert sizes == {"arguments_0:0": 64 * 100 * 6, "ReadVariableOp:0": 100 * 1000 * 6, "MatMul:0": 64 * 1000 * 6}


def test_an_aligned_model_gets_none() -> None:
    assert mixdown.explain(dense(128, 1000, 64), tf.TensorSpec([64, 128]), policy=EVERYWHERE).graphs[0].advice == ()


def test_the_batch_is_judged_where_it_is_known() -> None:
    known = mixdown.explain(dense(128, 64), tf.TensorSpec([60, 128]), policy=EVERYWHERE).graphs[0].advice
    assert [(each.dimension, each.size, each.better) for each in known] == [("batch size", 60, 64)]
    assert mixdown.explain(dense(128, 64), policy=EVERYWHERE).graphs[0].advice == ()


def test_an_op_that_stays_full_gets_no_advice() -> None:
    kept = mixdown.explain(dense(100, 1000), policy=EVERYWHERE.with_keep("MatMul"))
    assert kept.graphs[0].advice == ()


def trainable(library: Any) -> Any:
    model = library.Sequential(
        [
            library.layers.Input((8,)),
            library.layers.Dense(16, activation="relu"),
            library.layers.BatchNormalization(),
            library.layers.Dropout(0.5),
            library.layers.Dense(2),
        ]
    )
    loss = library.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(library.optimizers.Adam(0.1), loss, metrics=["accuracy"])
    return model


def libraries() -> list[Any]:
    return [keras, pytest.importorskip("tf_keras")]


def state(model: Any) -> list[Any]:
    optimizer = model.optimizer.variables
    held = [*model.variables, *(optimizer() if callable(optimizer) else optimizer)]
    return [np.array(each.numpy()) for each in held]


BATCH = (np.ones([4, 8], np.float32), np.array([0, 1, 0, 1], np.int32))


@pytest.mark.parametrize("index", [0, 1])
def test_a_training_step_is_explained_and_the_model_left_as_it_was(index: int) -> None:
    library = libraries()[index]
    model = trainable(library)
    model.fit(*BATCH, verbose=0)  # so that the optimizer and the random state have something to lose
    before, function = state(model), model.train_function
    generator = tf.random.get_global_generator().state.numpy().copy()
    report = mixdown.explain(model, *BATCH, policy=EVERYWHERE)
    after = state(model)
    assert len(after) == len(before)
    assert all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))
    assert np.array_equal(tf.random.get_global_generator().state.numpy(), generator)
    assert model.train_function is function
    products = [row for row in report.graphs[0].ops if row.kind == "MatMul"]
    assert len(products) == 5  # two forward, three backward
    assert {site.dtype for row in products for site in row.sites} == {"float16"}


@pytest.mark.parametrize("index", [0, 1])
def test_an_optimizer_without_slots_gets_zeros_and_the_weights_stay(index: int) -> None:
    model = trainable(libraries()[index])
    before = [each.numpy() for each in model.variables]
    mixdown.explain(model, *BATCH, policy=EVERYWHERE)
    assert all(np.array_equal(old, new) for old, new in zip(before, state(model), strict=False))
    slots = [each for each in state(model)[len(before) :] if each.ndim]
    assert all(not each.any() for each in slots)
    assert model.train_function is None
    assert model.optimizer.iterations.numpy() == 0


@pytest.mark.parametrize("index", [0, 1])
def test_training_after_explaining_is_training(index: int) -> None:
    library = libraries()[index]
    results = []
    for explains in (False, True):
        library.utils.set_random_seed(7)
        model = trainable(library)
        if explains:
            mixdown.explain(model, *BATCH, policy=EVERYWHERE)
        model.fit(*BATCH, verbose=0)
        results.append(model.get_weights())
    assert all(np.array_equal(one, other) for one, other in zip(*results, strict=True))


def test_a_dataset_stands_for_its_batches() -> None:
    data = tf.data.Dataset.from_tensor_slices(BATCH).batch(2)
    report = mixdown.explain(trainable(keras), data, policy=EVERYWHERE)
    assert report.title == f"What mixed precision does to {report.graphs[0].name}"
    assert report.graphs[0].name.startswith("a training step of sequential")


@pytest.mark.parametrize("index", [0, 1])
def test_a_forward_pass_needs_no_example_if_the_model_says_what_it_takes(index: int) -> None:
    report = mixdown.explain(trainable(libraries()[index]), policy=EVERYWHERE)
    assert report.graphs[0].name.startswith("the forward pass of sequential")
    assert len([row for row in report.graphs[0].ops if row.kind == "MatMul"]) == 2


def test_a_model_of_several_inputs_takes_them_together() -> None:
    inputs = {name: keras.Input((4,), name=name) for name in "ab"}
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Concatenate()(list(inputs.values()))))
    for args in ((), ({"a": np.ones([3, 4]), "b": np.ones([3, 4])},)):
        assert dtypes(mixdown.explain(model, *args, policy=EVERYWHERE).graphs[0], "MatMul") == {"float16"}


class Saved(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = tf.Variable(tf.ones([4, 4]))

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def scores(self, x: Any) -> Any:
        return {"scores": tf.nn.softmax(tf.matmul(x, self.weights))}

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def exponents(self, x: Any) -> Any:
        return {"exponents": tf.exp(x)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    module = Saved()
    signatures = {"scores": module.scores, "exponents": module.exponents}
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return folder


def test_every_signature_of_a_saved_model_is_explained(saved: Path) -> None:
    before = {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    for path in (saved, str(saved), saved / "saved_model.pb"):
        report = mixdown.explain(path)
        assert [(graph.name, graph.rewritten) for graph in report.graphs] == [("exponents", False), ("scores", True)]
    assert {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()} == before


def test_one_signature_can_be_asked_for(saved: Path) -> None:
    (graph,) = mixdown.explain(saved, signatures=["scores"]).graphs
    assert graph.name == "scores"
    assert dtypes(graph, "Softmax") == {"float32"}


@pytest.fixture(scope="module")
def graph() -> Any:
    with tf.Graph().as_default() as made:
        x = tf.compat.v1.placeholder(tf.float32, [2, 2], name="x")
        tf.identity(tf.matmul(x, x, name="product"), name="end")
    return made


def test_a_graph_is_fetched_where_it_ends_unless_told(graph: Any) -> None:
    report = mixdown.explain(graph.as_graph_def())
    assert "fetched" in report.why("end")
    assert dtypes(report.graphs[0], "MatMul") == {"float16"}
    assert dtypes(mixdown.explain(graph.as_graph_def(), fetches=["product"]).graphs[0], "MatMul") == {"float32"}


def test_a_graph_that_is_being_built_knows_its_lines(graph: Any) -> None:
    assert op(mixdown.explain(graph), "MatMul").source.startswith(f"{__file__}:")


@pytest.mark.parametrize("ending", ["pb", "pbtxt"])
def test_a_file_is_read_as_what_it_is(graph: Any, ending: str, tmp_path: Path) -> None:
    tf.io.write_graph(graph.as_graph_def(), str(tmp_path), f"g.{ending}", as_text=ending == "pbtxt")
    assert dtypes(mixdown.explain(tmp_path / f"g.{ending}").graphs[0], "MatMul") == {"float16"}


def unbuilt() -> Any:
    return keras.Sequential([keras.layers.Dense(2)], name="new")


def eager() -> Any:
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(2)], name="slow")
    model.compile("sgd", "mse", run_eagerly=True)
    return model


class Subclassed(tf.keras.Model):
    def build(self, shape: Any) -> None:
        self.dense = keras.layers.Dense(2)
        self.dense.build(shape)
        self.built = True

    def call(self, x: Any) -> Any:
        return self.dense(x)


def silent() -> Any:
    model = Subclassed(name="mute")
    model.build((None, 8))
    return model


def compiled_note(report: Report) -> str:
    (note,) = [note for note in report.notes if "compiled" in note]
    return note


def effort(report: Report) -> Any:
    return report.graphs[0].effort


def test_a_keras_model_is_explained_as_keras_runs_it_on_the_device() -> None:
    model = trainable(keras)
    model.fit(*BATCH, verbose=0)
    function, kept = model.train_function, model.jit_compile
    report = mixdown.explain(model, *BATCH, policy=EVERYWHERE, device="A100")
    name = report.graphs[0].name
    assert compiled_note(report) == f"{name} is explained as compiled by XLA, as Keras does by default on one A100."
    assert (model.train_function, model.jit_compile) == (function, kept)
    plain = mixdown.explain(model, *BATCH, policy=EVERYWHERE)
    assert effort(report).float32_bytes < effort(plain).float32_bytes
    assert not any("compiled" in note for note in plain.notes)
    (times,) = effort(report).predicted
    assert times.source == "for A100 (a roofline, not a measurement)"


def test_a_forward_pass_is_compiled_there_too() -> None:
    report = mixdown.explain(trainable(keras), policy=EVERYWHERE, device="H100")
    assert "is explained as compiled by XLA, as Keras does by default on one H100." in compiled_note(report)


def test_a_model_can_be_explained_as_not_compiled() -> None:
    model = trainable(keras)
    report = mixdown.explain(model, *BATCH, policy=EVERYWHERE, device="A100", jit_compile=False)
    expected = "is explained as not compiled, because you said jit_compile=False: every op is a kernel of its own. With"
    assert expected in compiled_note(report)
    plain = mixdown.explain(model, *BATCH, policy=EVERYWHERE)
    assert effort(report).bytes == effort(plain).bytes


def test_tf_keras_compiles_if_it_is_told_to_only() -> None:
    model = trainable(libraries()[1])
    model.evaluate(*BATCH, verbose=0)
    kept = model.test_function
    report = mixdown.explain(model, *BATCH, policy=EVERYWHERE, device="A100")
    assert "is explained as not compiled, as Keras does not compile it by default on one A100: every" in compiled_note(
        report
    )
    report = mixdown.explain(model, *BATCH, policy=EVERYWHERE, device="A100", jit_compile=True)
    assert "is explained as compiled by XLA, because you said jit_compile=True." in compiled_note(report)
    assert model.test_function is kept
    assert not model.jit_compile


def test_a_model_with_a_layer_that_xla_cannot_compile_is_explained_as_not_compiled(
    recwarn: pytest.WarningsRecorder,
) -> None:
    model = trainable(keras)
    model.layers[0].supports_jit = False
    report = mixdown.explain(model, *BATCH, policy=EVERYWHERE, device="A100")
    assert "is explained as not compiled, as Keras does not compile it" in compiled_note(report)
    assert not recwarn.list


def test_a_function_is_explained_as_it_is_and_told_what_compiling_changes() -> None:
    report = mixdown.explain(classify, X, policy=EVERYWHERE, device="A100")
    assert compiled_note(report).startswith("classify is explained as not compiled, as it is: every op is a kernel")
    function = tf.function(classify.python_function, jit_compile=True)
    report = mixdown.explain(function, X, policy=EVERYWHERE, device="A100")
    assert compiled_note(report) == "classify is explained as compiled by XLA, as it is."
    assert "XLA fuses most of the casts" in str(report)


def test_only_a_keras_model_takes_jit_compile() -> None:
    with pytest.raises(mixdown.GraphError, match="jit_compile is for Keras models, and anything else is explained as"):
        mixdown.explain(classify, X, jit_compile=True)


REFUSED: dict[str, tuple[Any, tuple[Any, ...], type[Exception], str]] = {
    "a number": (lambda: 7, (), TypeError, "A int has no graph to explain. Give a tf.function"),
    "an unbuilt model": (unbuilt, (), mixdown.GraphError, "The model 'new' has no weights yet"),
    "a model without a loss": (lambda: dense(8, 2), BATCH, mixdown.GraphError, "call model.compile"),
    "a model that runs eagerly": (eager, BATCH, mixdown.GraphError, "The model 'slow' runs eagerly"),
    "a model that says nothing": (silent, (), mixdown.GraphError, "The model 'mute' does not say what it takes"),
    "a missing file": (lambda: "nowhere.pb", (), mixdown.GraphError, "There is no model at 'nowhere.pb'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_explained_is_refused_with_the_way_out(case: str) -> None:
    target, args, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        mixdown.explain(target(), *args)


def test_files_that_hold_something_else_are_named(tmp_path: Path, saved: Path) -> None:
    broken = tmp_path / "broken.pb"
    broken.write_bytes(b"\xff" * 9)
    with pytest.raises(mixdown.GraphError, match="does not hold a GraphDef"):
        mixdown.explain(broken)
    with pytest.raises(mixdown.GraphError, match=r"There is no SavedModel in .*: it has neither saved_model.pb"):
        mixdown.explain(tmp_path)
    with pytest.raises(mixdown.GraphError, match="has no signature nine; it has exponents, scores"):
        mixdown.explain(saved, signatures=["nine"])
    with pytest.raises(mixdown.GraphError, match="is no SavedModel, so it has no signatures"):
        mixdown.explain(broken, signatures=["nine"])
    bare = tmp_path / "saved_model"  # a folder may have that name, too
    tf.saved_model.save(tf.Module(), str(bare))
    with pytest.raises(mixdown.GraphError, match="has no signatures: save it with"):
        mixdown.explain(bare)
