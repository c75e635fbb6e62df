"""What a converted SavedModel keeps: functions, objects, gradients, state, tables. And what it refuses."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2

import mixdown

X = tf.TensorSpec([None, 16], name="x")
rng = np.random.default_rng(1)


def normal(*shape: int) -> np.ndarray:
    return (rng.normal(size=shape) / 4).astype("float32")


class Model(tf.Module):
    """Two layers; `inner` is called from outside and by `outer`; `scaled` reads the second kernel in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = tf.Variable(normal(16, 16), name="first"), tf.Variable(normal(16, 16), name="second")
        self.calls = tf.Variable(0.0, name="calls")

    @tf.function(input_signature=[X])
    def inner(self, x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(x @ self.first)

    @tf.function(input_signature=[X])
    def outer(self, x: tf.Tensor) -> tf.Tensor:
        self.calls.assign_add(1.0)
        return self.inner(x) @ self.second

    @tf.function(input_signature=[])
    def norm(self) -> tf.Tensor:
        return tf.norm(self.second)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "saved"), {"run": model.outer})
    return tmp_path / "saved"


def save(folder: Path, kernel: Any, call: Callable[[tf.Tensor, tf.Variable], tf.Tensor], options: Any = None) -> Path:
    """Save a model of one variable and one function."""
    model = tf.Module()
    model.kernel = tf.Variable(kernel)
    model.call = tf.function(lambda x: call(x, model.kernel), input_signature=[X])
    tf.saved_model.save(model, str(folder / "saved"), options=options)
    return folder / "saved"


def convert(saved: Path, **options: Any) -> Any:
    mixdown.convert_saved_model(saved, saved.parent / "converted", overwrite=True, **options)
    return tf.saved_model.load(str(saved.parent / "converted"))


def functions(folder: Path) -> dict[str, Any]:
    proto = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    return {function.signature.name: function for function in proto.meta_graphs[0].graph_def.library.function}


def close(got: tf.Tensor, wanted: tf.Tensor, tolerance: float = 2**-7) -> bool:
    return bool(np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max())


@pytest.mark.parametrize("weights", ["float32", "low"])
def test_every_function_can_be_called_as_before(saved: Path, weights: str) -> None:
    original, converted, x = tf.saved_model.load(str(saved)), convert(saved, weights=weights), normal(3, 16)
    for name in ("inner", "outer"):
        wanted, got = getattr(original, name)(x), getattr(converted, name)(x)
        assert got.dtype == tf.float32
        assert close(got, wanted)
        assert not np.array_equal(got, wanted)  # it was computed in 16 bits
    assert converted.norm() == original.norm()


@pytest.mark.parametrize("weights", ["float32", "low"])
def test_gradients_flow_through_converted_functions(saved: Path, weights: str) -> None:
    x, gradients = tf.constant(normal(3, 16)), []
    for model in (tf.saved_model.load(str(saved)), convert(saved, weights=weights)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(model.outer(x) ** 2)
        gradients.append(tape.gradient(loss, [x, model.first]))
    for got, wanted in zip(gradients[1], gradients[0], strict=True):
        assert close(tf.cast(got, tf.float32), wanted)


def test_only_variables_that_nobody_reads_in_float32_are_stored_low(saved: Path) -> None:
    converted = convert(saved, weights="low")
    assert (converted.first.dtype, converted.second.dtype) == (tf.float16, tf.float32)  # norm reads the second one


def test_variables_that_functions_write_to_keep_their_type_and_work(saved: Path) -> None:
    converted = convert(saved, weights="low")
    for _ in range(3):
        converted.outer(normal(2, 16))
    assert converted.calls.dtype == tf.float32
    assert converted.calls.numpy() == 3.0


WRITERS = {
    "by an update": lambda kernel: kernel.assign_sub,
    "to what it is given": lambda kernel: kernel.assign,
}


@pytest.mark.parametrize("case", WRITERS)
def test_a_variable_that_can_be_set_from_outside_is_stored_in_float32(case: str, tmp_path: Path) -> None:
    model = tf.Module()
    model.kernel = tf.Variable(normal(16, 16))
    model.call = tf.function(lambda x: x @ model.kernel, input_signature=[X])
    write = WRITERS[case](model.kernel)

    @tf.function(input_signature=[tf.TensorSpec([16, 16])])
    def set_kernel(values: tf.Tensor) -> tf.Tensor:
        write(values)
        return values

    model.set = set_kernel
    tf.saved_model.save(model, str(tmp_path / "saved"))
    converted = convert(tmp_path / "saved", weights="low")
    assert converted.kernel.dtype == tf.float32
    converted.set(tf.fill([16, 16], 1e6))
    assert np.abs(converted.kernel.numpy()).max() > 9e5


def test_stored_values_are_those_a_cast_would_give(saved: Path) -> None:
    original, converted = tf.saved_model.load(str(saved)), convert(saved, weights="low")
    np.testing.assert_array_equal(converted.first.numpy(), tf.cast(original.first, tf.float16).numpy())
    np.testing.assert_array_equal(converted.second.numpy(), original.second.numpy())


def test_functions_called_from_outside_keep_their_names_and_signatures(saved: Path) -> None:
    convert(saved)
    before, after = functions(saved), functions(saved.parent / "converted")
    assert before.keys() <= after.keys()
    for name, function in before.items():
        assert after[name].signature == function.signature


def test_a_function_that_is_not_called_from_outside_is_not_written_twice(tmp_path: Path) -> None:
    layer = tf.function(lambda x, kernel: tf.nn.relu(x @ kernel))
    saved = save(tmp_path, normal(16, 16), lambda x, kernel: layer(layer(x, kernel), kernel))
    converted, x = convert(saved), normal(3, 16)
    assert len(functions(tmp_path / "converted")) == len(functions(saved))
    assert close(converted.call(x), tf.saved_model.load(str(saved)).call(x))


def test_converting_twice_with_equal_input_gives_equal_bytes(saved: Path) -> None:
    for name in ("one", "two"):
        mixdown.convert_saved_model(saved, saved.parent / name, weights="low")
    one, two = (
        {p.relative_to(root): p for p in root.rglob("*") if p.is_file()}
        for root in (saved.parent / "one", saved.parent / "two")
    )
    assert one.keys() == two.keys()
    different = [str(name) for name in one if one[name].read_bytes() != two[name].read_bytes()]
    assert set(different) <= {"fingerprint.pb"}  # it holds a random id


def test_custom_gradients_survive(tmp_path: Path) -> None:
    @tf.custom_gradient
    def doubled(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.nn.relu(x) * 2, lambda upstream: upstream * tf.constant(5.0)

    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    saved = save(tmp_path, normal(16, 16), lambda x, kernel: doubled(x @ kernel) @ kernel, options)
    x, gradients = tf.constant(normal(3, 16)), []
    for model in (tf.saved_model.load(str(saved)), convert(saved)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = model.call(x)
        gradients.append(tape.gradient(result, x))
    assert close(gradients[1], gradients[0])


def test_report_is_inside_as_page_and_as_json(saved: Path) -> None:
    done = mixdown.convert_saved_model(saved, saved.parent / "converted")
    folder = saved.parent / "converted" / "assets.extra"
    assert "<html" in (folder / "mixdown-report.html").read_text("utf-8")
    report = json.loads((folder / "mixdown-report.json").read_text("utf-8"))
    kinds = {op["kind"] for graph in report["graphs"] for op in graph["ops"]}
    assert "MatMul" in kinds
    assert "float32 ops run in 16 bits" in str(done)


def test_policy_is_followed(saved: Path) -> None:
    original, x = tf.saved_model.load(str(saved)), normal(3, 16)
    name = next(node.name for f in functions(saved).values() for node in f.node_def if node.op == "Relu")
    kept = convert(saved, policy=mixdown.Policy(low="bfloat16", devices="all").with_keep(name=name).with_deny("Relu"))
    assert close(kept.outer(x), original.outer(x), 2**-5)
    types = {node.attr["T"].type for f in functions(saved.parent / "converted").values() for node in f.node_def}
    assert types_pb2.DT_BFLOAT16 in types
    assert types_pb2.DT_HALF not in types


def test_values_beyond_float16_are_told(tmp_path: Path) -> None:
    save(tmp_path, tf.fill([16, 16], 1e6), lambda x, kernel: x @ kernel)
    with pytest.warns(mixdown.MixdownWarning, match=r"kernel/.* has values that float16 cannot hold"):
        mixdown.convert_saved_model(tmp_path / "saved", tmp_path / "low", weights="low")
    done = mixdown.convert_saved_model(
        tmp_path / "saved", tmp_path / "b", mixdown.Policy(low="bfloat16", devices="all"), weights="low"
    )
    assert done.report.warnings == ()


def test_model_in_which_nothing_can_be_low_is_told(tmp_path: Path) -> None:
    save(tmp_path, 2.0, lambda x, kernel: tf.exp(x) * kernel)
    with pytest.warns(mixdown.MixdownWarning, match="Nothing in saved can run in 16 bits"):
        mixdown.convert_saved_model(tmp_path / "saved", tmp_path / "converted")


def read_values_in_the_graph(saved: Path) -> None:
    """Save as TensorFlow did before 2.14: variables are read in the graph, and the function that saves gets values."""
    path = saved / "saved_model.pb"
    proto = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    graph_def = proto.meta_graphs[0].graph_def
    saver = next(f for f in graph_def.library.function if "traced_save" in f.signature.name)
    call = next(node for node in graph_def.node if node.attr["f"].func.name == saver.signature.name)
    for argument in (a for a in saver.signature.input_arg if a.type == types_pb2.DT_RESOURCE):
        position = [a.name for a in saver.signature.input_arg].index(argument.name)
        read = next(n for n in saver.node_def if n.op == "ReadVariableOp" and n.input[0] == argument.name)
        argument.type = call.attr["Tin"].list.type[position] = read.attr["dtype"].type
        argument.ClearField("handle_data")
        call.input[position] += "/Read/ReadVariableOp"
        read.op, read.attr["T"].type = "Identity", read.attr["dtype"].type
        del read.attr["dtype"], read.input[1:]
        for node in saver.node_def:
            for index, text in enumerate(node.input):
                node.input[index] = text.replace(f"{read.name}:value:0", f"{read.name}:output:0")
    for node in [n for n in saver.node_def if n.op == "DisableCopyOnRead"]:
        saver.node_def.remove(node)
    for node in saver.node_def:
        kept = [text for text in node.input if "DisableCopyOnRead" not in text]
        del node.input[:]
        node.input.extend(kept)
    for name in [name for name in saver.control_ret if "DisableCopyOnRead" in name]:
        del saver.control_ret[name]
        saver.signature.control_output.remove(name)
    saver.arg_attr.clear()
    del saver.attr["_input_shapes"]
    path.write_bytes(proto.SerializeToString())


def test_models_of_older_tensorflow_store_weights_low_and_save_again(saved: Path) -> None:
    read_values_in_the_graph(saved)
    assert convert(saved, weights="low").first.dtype == tf.float16
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(saved.parent / "converted"))
        again = str(saved.parent / "again")
        session.run(graph.saver_def.save_tensor_name, {graph.saver_def.filename_tensor_name: again})
    stored = tf.train.load_checkpoint(again).get_variable_to_dtype_map()
    assert {name.partition("/")[0]: dtype for name, dtype in stored.items() if "VALUE" in name} == {
        "first": tf.float16,
        "second": tf.float32,
        "calls": tf.float32,
    }


def test_initializers_of_tensorflow_1_still_work_with_low_weights(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 16], "x")
        kernel = v1.get_variable("kernel", [16, 16], initializer=tf.ones_initializer(), use_resource=True)
        copied = v1.get_variable("copied", initializer=kernel.read_value(), use_resource=True)
        y = (x @ kernel) @ kernel
        session.run(kernel.initializer)
        session.run(copied.initializer)
        v1.saved_model.simple_save(session, str(tmp_path / "saved"), {"x": x}, {"y": y})
    done = mixdown.convert_saved_model(tmp_path / "saved", tmp_path / "converted", weights="low")
    assert done.low_variables == ("copied", "kernel")
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(done.path))
        session.run("kernel/Assign")
        session.run("copied/Assign")
        assert session.run("copied/Read/ReadVariableOp:0").dtype == np.float16
        assert session.run(y.name, {"x:0": np.ones([1, 16])}).tolist() == [[256.0] * 16]


def test_functions_say_what_their_variables_are(saved: Path) -> None:
    convert(saved, weights="low")
    for function in functions(saved.parent / "converted").values():
        declared = {a.name: a.handle_data[0].dtype for a in function.signature.input_arg if a.handle_data}
        reads = [node for node in function.node_def if node.op == "ReadVariableOp" and node.input[0] in declared]
        assert all(declared[node.input[0]] == node.attr["dtype"].type for node in reads)


def edit(saved: Path) -> Any:
    return saved_model_pb2.SavedModel.FromString((saved / "saved_model.pb").read_bytes())


def test_defaults_of_signatures_follow_their_types(saved: Path) -> None:
    proto = edit(saved)
    proto.meta_graphs[0].signature_def["run"].defaults["x"].CopyFrom(tf.make_tensor_proto(normal(1, 16)))
    (saved / "saved_model.pb").write_bytes(proto.SerializeToString())
    mixdown.convert_saved_model(saved, saved.parent / "low", io="low")
    signature = edit(saved.parent / "low").meta_graphs[0].signature_def["run"]
    assert signature.inputs["x"].dtype == signature.defaults["x"].dtype == types_pb2.DT_HALF


def test_inputs_that_are_no_placeholders_stay_and_are_told(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder_with_default(tf.ones([2, 16]), [None, 16], "x")
        y = tf.nn.relu(x @ tf.ones([16, 16])) @ tf.ones([16, 16])
        v1.saved_model.simple_save(session, str(tmp_path / "saved"), {"x": x}, {"y": y})
    with pytest.warns(mixdown.MixdownWarning, match="The input x of serving_default stays float32: it is no placeh"):
        mixdown.convert_saved_model(tmp_path / "saved", tmp_path / "low", io="low")
    with tf.Graph().as_default(), v1.Session() as session:
        graph = v1.saved_model.load(session, ["serve"], str(tmp_path / "low"))
        signature = graph.signature_def["serving_default"]
        assert session.run(signature.outputs["y"].name).dtype == np.float16
        assert signature.inputs["x"].dtype == types_pb2.DT_FLOAT


def test_models_in_text_are_converted_too(saved: Path) -> None:
    (saved / "saved_model.pbtxt").write_text(str(edit(saved)), "utf-8")
    (saved / "saved_model.pb").unlink()
    assert convert(saved).inner(normal(2, 16)).dtype == tf.float32
    assert not (saved.parent / "converted" / "saved_model.pbtxt").exists()


def test_the_list_of_ops_is_up_to_date(saved: Path) -> None:
    convert(saved)
    listed = {op.name for op in edit(saved.parent / "converted").meta_graphs[0].meta_info_def.stripped_op_list.op}
    used = {node.op for function in functions(saved.parent / "converted").values() for node in function.node_def}
    assert "Cast" in used
    assert used <= listed


def broken(folder: Path) -> Path:
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"no proto")
    return folder


def in_chunks(folder: Path) -> Path:
    folder.mkdir()
    (folder / "saved_model.cpb").write_bytes(b"")
    return folder


def doubled(saved: Path) -> Path:
    proto = saved_model_pb2.SavedModel.FromString((saved / "saved_model.pb").read_bytes())
    proto.meta_graphs.add().CopyFrom(proto.meta_graphs[0])
    (saved / "saved_model.pb").write_bytes(proto.SerializeToString())
    return saved


SCOPED = mixdown.Policy(devices="all").with_keep(scope="nowhere")
REFUSALS: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "no such model": (lambda saved: {"src": saved / "nowhere"}, "There is no model at '.*nowhere'"),
    "no SavedModel": (lambda saved: {"src": saved / "variables"}, "There is no SavedModel in '.*variables'"),
    "broken": (lambda saved: {"src": broken(saved.parent / "bad")}, "The SavedModel in '.*bad' is broken"),
    "in chunks": (lambda saved: {"src": in_chunks(saved.parent / "bad")}, "is split into chunks"),
    "exists": (lambda saved: {"dst": saved.parent}, "exists already. Choose another name, or say overwrite"),
    "itself": (lambda saved: {"dst": saved, "overwrite": True}, "lies in the model to convert"),
    "inside": (lambda saved: {"dst": saved / "low"}, "lies in the model to convert"),
    "io": (lambda _: {"io": "float16"}, "io is 'float32' or 'low', not 'float16'"),
    "weights": (lambda _: {"weights": "half"}, "weights is 'float32' or 'low', not 'half'"),
    "outputs": (lambda _: {"outputs": ["y"]}, "outputs is for frozen graphs"),
    "two graphs": (lambda saved: {"src": doubled(saved), "weights": "low"}, "holds 2 graphs that share"),
    "idle rule": (lambda _: {"policy": SCOPED}, "Nothing in this model matches .*nowhere"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal_names_the_culprit_and_leaves_nothing(case: str, saved: Path) -> None:
    change, message = REFUSALS[case]
    arguments = {"src": saved, "dst": saved.parent / "converted", **change(saved)}
    before = sorted(saved.parent.rglob("*"))
    with pytest.raises(mixdown.MixdownError) as refused:
        mixdown.convert_saved_model(**arguments)
    assert re.search(message, str(refused.value))
    assert sorted(saved.parent.rglob("*")) == before


def test_several_graphs_are_converted_together(saved: Path) -> None:
    done = mixdown.convert_saved_model(doubled(saved), saved.parent / "converted")
    proto = saved_model_pb2.SavedModel.FromString((done.path / "saved_model.pb").read_bytes())
    assert len(proto.meta_graphs) == 2
    assert proto.meta_graphs[0] == proto.meta_graphs[1]
