"""What the names of ops tell: layers and gradients."""

from __future__ import annotations

import pytest

from mixdown.rules.layer_names import DEEPEST, LayerScopes, is_backward, layer_of, layers, python_name

LAYERS = {
    "model/dense/MatMul": "model/dense",
    "model/dense/BiasAdd": "model/dense",
    "model/dense/BiasAdd/ReadVariableOp": "model/dense",
    "gradient_tape/model/dense/MatMul/MatMul_1": "model/dense",
    "gradients/model/dense/MatMul_grad/MatMul": "model/dense",
    "gradients_1/model/dense/MatMul_grad/MatMul": "model/dense",
    "train/gradients/model/dense/BiasAdd_grad/BiasAddGrad": "model/dense",
    "MatMul": "",
    "gradients/MatMul_grad/MatMul": "",
}


def test_an_op_belongs_to_the_layer_whose_work_it_does() -> None:
    assert dict(zip(LAYERS, layers(list(LAYERS)), strict=True)) == LAYERS


def test_a_scope_is_a_layer_unless_an_op_opened_it() -> None:
    assert layer_of("gradient_tape/dense/MatMul/MatMul_1") == "dense/MatMul"
    assert layer_of("gradient_tape/dense/MatMul/MatMul_1", ["dense/MatMul"]) == "dense"


@pytest.mark.parametrize("name", LAYERS)
def test_an_op_is_backward_in_a_scope_of_gradients_only(name: str) -> None:
    assert is_backward(name) == ("gradient" in name)
    assert not is_backward(name.replace("gradient", "my_gradient"))


def test_a_long_name_is_read_to_its_end() -> None:
    deep = "scope/" * 200_000
    assert layer_of(f"{deep}MatMul") == deep.rstrip("/")


KERAS_3 = (
    "s_1/dense_1/MatMul",
    "s_1/dense_1_2/MatMul",
    "s_1/head_1/MatMul",
    "gradient_tape/s_1/head_1/MatMul/MatMul_1",
)
CALLED_TWICE = ("f_1_1/enc_1/MatMul", "f_1_1/enc_3/MatMul", "f_1_1/enc_3_2/MatMul", "f_1_1/block_1/head_1/MatMul")
TF_KERAS = ("s/dense/MatMul", "s/dense_1/MatMul", "s/head/MatMul", "gradient_tape/s/dense_1/MatMul/MatMul")
SECOND_MODEL = ("s_1/dense_2/MatMul", "s_1/dense_3/MatMul")
NUMBERED_BY_HAND = ("net/stage_1/MatMul", "net/stage_1_1/MatMul", "net/stem/MatMul", "net/head/MatMul")
SESSION = ("net/head/MatMul", "train/gradients/net/head/MatMul_grad/MatMul", "gradients_1/net/body/MatMul_grad/MatMul")

HELD: list[tuple[tuple[str, ...], str, list[int]]] = [
    (KERAS_3, "dense", [0]),
    (KERAS_3, "dense_1", [1]),
    (KERAS_3, "head", [2, 3]),
    (KERAS_3, "s", [0, 1, 2, 3]),
    (KERAS_3, "s/head", [2, 3]),
    (KERAS_3, "head_1", [2, 3]),  # the scope itself
    (KERAS_3, "hea", []),
    (KERAS_3, "dense/head", []),
    (CALLED_TWICE, "enc", [0, 1]),
    (CALLED_TWICE, "enc_3", [2]),
    (CALLED_TWICE, "f_1", [0, 1, 2, 3]),
    (CALLED_TWICE, "block/head", [3]),
    (TF_KERAS, "dense", [0]),
    (TF_KERAS, "dense_1", [1, 3]),
    (TF_KERAS, "head", [2]),
    (SECOND_MODEL, "dense_2", [0]),
    (NUMBERED_BY_HAND, "stage_1", [0]),
    (NUMBERED_BY_HAND, "stage_1_1", [1]),
    (SESSION, "head", [0, 1]),
    (SESSION, "body", [2]),
]


@pytest.mark.parametrize(("ops", "layer", "held"), HELD)
def test_a_layer_is_found_by_its_name_whatever_its_scope_is_called(
    ops: tuple[str, ...], layer: str, held: list[int]
) -> None:
    scopes = LayerScopes(ops)
    assert [at for at, op in enumerate(ops) if scopes.holds(layer, op)] == held


def test_layers_are_named_as_rules_would_find_them() -> None:
    assert LayerScopes(KERAS_3).names() == ["dense", "dense_1", "head", "s"]
    assert LayerScopes(TF_KERAS).names() == ["dense", "dense_1", "head", "s"]


def test_layers_are_looked_for_only_so_deep_in_a_name() -> None:
    deep = "scope/" * 200_000 + "MatMul"
    scopes = LayerScopes([deep])
    assert not scopes.holds("head", deep)
    assert max(name.count("/") for name in scopes._beside) < DEEPEST


PYTHON_NAMES = {
    "__inference_one_step_on_data_12345": "one_step_on_data",
    "__forward_call_7": "call",
    "__backward_call_7": "call",
    "__inference_step_2_19": "step_2",
    "my_function_12": "my_function_12",
}


@pytest.mark.parametrize("registered", PYTHON_NAMES)
def test_a_function_is_called_by_its_name_in_python(registered: str) -> None:
    assert python_name(registered) == PYTHON_NAMES[registered]
