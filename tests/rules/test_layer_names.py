"""What the names of ops tell: layers and gradients."""

from __future__ import annotations

from time import perf_counter

import pytest

from mixdown.rules.layer_names import is_backward, layer_of, layers, python_name

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


def test_a_long_name_is_read_in_linear_time() -> None:
    deep = "scope/" * 200_000
    started = perf_counter()
    assert layer_of(f"{deep}MatMul") == deep.rstrip("/")
    assert perf_counter() - started < 5


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
