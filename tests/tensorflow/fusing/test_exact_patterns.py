"""Whatever is changed in a normalization, or around it, keeps it from being put onto one op."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import ON_CPU
from tests.tensorflow.fusing.norm_models import layered, model, spelled_out, step

from mixdown.tensorflow.fusing.batch_norms import batch_norms
from mixdown.tensorflow.fusing.fuse import fused
from mixdown.tensorflow.fusing.layer_norms import layer_norms
from mixdown.tensorflow.fusing.norms import Norm
from mixdown.tensorflow.fusing.patterns import Wires
from mixdown.tensorflow.protos.bodies import function_body
from mixdown.tensorflow.protos.wiring import node_name

FORMS: dict[str, Callable[[], Any]] = {
    "batch": lambda: step(model()),
    "batch, axis 3": lambda: step(model(axis=3)),
    "batch of unknown size": lambda: step(model(), batch=None),
    "batch, no scale": lambda: step(model(scale=False)),
    "layer": lambda: step(layered()),
}
SQUARES, ROOT = "moments/SquaredDifference", "batchnorm/Rsqrt"


def definition(train: Any) -> Any:
    return train.get_concrete_function().function_def


def count(function: Any) -> int:
    return len(fused(function_body(function), {}, ON_CPU).ops)


def parts(function: Any) -> list[Any]:
    """The nodes of the normalization, and the constants that they read."""
    wires = Wires(function_body(function))
    found: list[Norm] = [*batch_norms(wires), *layer_norms(wires)]
    (norm,) = found
    nodes = [wires.nodes[node_name(text)] for name, text in norm.match.items() if name not in norm.ends]
    return [node for node in function.node_def if node in nodes]


@pytest.mark.parametrize("form", FORMS)
def test_another_constant(form: str) -> None:
    """All but the one that is added to the variance."""
    function = definition(FORMS[form]())
    constants = [node for node in parts(function) if node.op == "Const" and not node.name.endswith("add/y")]
    assert len(constants) >= 9
    assert count(function) == 1
    for node in constants:
        before, tensor = tf.make_ndarray(node.attr["value"].tensor), node.attr["value"].tensor
        tensor.CopyFrom(tf.make_tensor_proto(before + 1, before.dtype))
        assert count(function) == 0, node.name
        tensor.CopyFrom(tf.make_tensor_proto(before))
    assert count(function) == 1


@pytest.mark.parametrize("form", FORMS)
def test_another_op(form: str) -> None:
    function = definition(FORMS[form]())
    for node in parts(function):
        kind, node.op = node.op, "Atan2"
        assert count(function) == 0, node.name
        node.op = kind


@pytest.mark.parametrize("attribute", ["keep_dims", "squeeze_dims"])
def test_other_attributes(attribute: str) -> None:
    function = definition(spelled_out())
    nodes = [node for node in parts(function) if node.op in ("Mean", "Squeeze") and attribute in node.attr]
    assert len(nodes) == 2
    for node in nodes:
        copy = type(node).FromString(node.SerializeToString())
        del node.attr[attribute]
        assert count(function) == 0, node.name
        node.CopyFrom(copy)
    assert count(function) == 1


def edit_return(function: Any) -> None:
    function.ret[next(iter(function.ret))] = f"{SQUARES}:z:0"


def edit_shape_of_part(function: Any) -> None:
    shape = function.node_def.add(name="shape", op="Shape", input=[f"{SQUARES}:z:0"])
    shape.attr["T"].type = tf.float32.as_datatype_enum
    function.ret[next(iter(function.ret))] = "shape:output:0"


def edit_waiting(function: Any) -> None:
    function.node_def.add(name="waiting", op="NoOp", input=[f"^{ROOT}"])


def edit_part_that_waits(function: Any) -> None:
    function.node_def.add(name="first", op="NoOp")
    named(function, ROOT).input.append("^first")


def edit_end(function: Any) -> None:
    function.control_ret["end"] = ROOT


def edit_neighbour(function: Any) -> None:
    beside = function.node_def.add(name="beside", op="NoOp")
    beside.attr["_class"].list.s.append(f"loc:@{ROOT}".encode())


def edit_epsilon(function: Any) -> None:
    tensor = named(function, "batchnorm/add/y").attr["value"].tensor
    tensor.CopyFrom(tf.make_tensor_proto([0.1, 0.2, 0.3, 0.4], "float32"))


def edit_broken_constant(function: Any) -> None:
    named(function, "batchnorm/add/y").attr["value"].tensor.tensor_content = b"odd"


def named(function: Any, name: str) -> Any:
    return next(node for node in function.node_def if node.name == name)


@pytest.mark.parametrize("edit", [value for name, value in list(globals().items()) if name.startswith("edit_")])
def test_an_edit(edit: Callable[[Any], None]) -> None:
    function = definition(spelled_out())
    assert count(function) == 1
    edit(function)
    assert count(function) == 0


def test_a_weight_that_is_no_vector() -> None:
    """One number for all channels: its gradient is summed up, which tells it from a vector."""
    assert count(definition(spelled_out(width=1))) == 0
    assert count(definition(spelled_out(offset_width=1))) == 0
    assert count(definition(spelled_out(width=4, offset_width=4))) == 1
